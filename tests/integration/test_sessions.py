"""Resident sessions through the router: positions, conflicts, stop texts, cancellation, spill, expiry."""
import grpc
import pytest
from processes import ENDLESS, wait_until

SAMPLED = dict(temperature=0.8, seed=3)
TURN = dict(sampling=SAMPLED, stopping=dict(max_tokens=24, ignore_eos=True))


@pytest.fixture(scope="module")
def sp():
    from tandem.v1 import session_pb2
    return session_pb2


def open_session(group, sp, **fields):
    return group.client.sessions.OpenSession(sp.OpenSessionRequest(**fields)).session_id


def code_of(call):
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code()


@pytest.mark.sanitize
def test_life_of_a_session(group, sp, golden):
    sessions = group.client.sessions
    name = open_session(group, sp, session_id="life", idle_timeout_seconds=600)
    assert name == "life"
    assert code_of(lambda: open_session(group, sp, session_id="life")) == grpc.StatusCode.ALREADY_EXISTS
    reply = group.client.generate(ids=golden["cases"][0]["ids"], session=name, position=0, **TURN)
    described = sessions.DescribeSession(sp.DescribeSessionRequest(session_id=name))
    assert described.position == reply.finished.position == len(golden["cases"][0]["ids"]) + 24
    assert described.idle_timeout_seconds == 600 and not described.busy
    assert name in [s.session_id for s in sessions.ListSessions(sp.ListSessionsRequest()).sessions]
    assert code_of(lambda: group.client.generate(prompt="x", session=name, position=1, **TURN)) == \
        grpc.StatusCode.FAILED_PRECONDITION
    sessions.CloseSession(sp.CloseSessionRequest(session_id=name))
    for call in (lambda: sessions.DescribeSession(sp.DescribeSessionRequest(session_id=name)),
                 lambda: sessions.CloseSession(sp.CloseSessionRequest(session_id=name)),
                 lambda: group.client.generate(prompt="x", session=name, **TURN)):
        assert code_of(call) == grpc.StatusCode.NOT_FOUND


def test_listing_goes_page_by_page(group, sp):
    names = {open_session(group, sp, session_id=f"page-{i}") for i in range(7)}
    seen, token = set(), None
    while True:
        page = group.client.sessions.ListSessions(sp.ListSessionsRequest(page_size=3, page_token=token))
        assert len(page.sessions) <= 3
        seen |= {s.session_id for s in page.sessions}
        token = page.next_page_token
        if not token:
            break
    assert names <= seen
    for name in names:
        group.client.sessions.CloseSession(sp.CloseSessionRequest(session_id=name))


@pytest.mark.sanitize
def test_one_writer_at_a_time(group, sp):
    name = open_session(group, sp)
    with group.client.running(prompt="x", session=name, stopping=ENDLESS):
        assert code_of(lambda: group.client.generate(prompt="y", session=name, **TURN)) == \
            grpc.StatusCode.FAILED_PRECONDITION
    wait_until(lambda: not group.client.sessions.DescribeSession(sp.DescribeSessionRequest(session_id=name)).busy, 10,
               "session free after cancellation")
    group.client.sessions.CloseSession(sp.CloseSessionRequest(session_id=name))


@pytest.mark.sanitize
def test_cancelled_turn_leaves_the_session_as_it_was(group, sp, golden):
    ids = golden["cases"][1]["ids"]
    results = []
    for cancel in (False, True):
        name = open_session(group, sp)
        first = group.client.generate(ids=ids, session=name, **TURN)
        if cancel:
            group.client.generate(prompt="something else", session=name, sampling=SAMPLED, stopping=ENDLESS, stop_after=5)
            wait_until(lambda: not group.client.sessions.DescribeSession(
                sp.DescribeSessionRequest(session_id=name)).busy, 10, "session free after cancellation")
        second = group.client.generate(ids=ids[:9], session=name, position=first.finished.position, **TURN)
        results.append((first.token_ids, second.token_ids))
        group.client.sessions.CloseSession(sp.CloseSessionRequest(session_id=name))
    assert results[0] == results[1]


@pytest.mark.parametrize("drafts", [0, 3, 8])
def test_after_a_stop_text_the_session_stands_before_it(group, sp, golden, drafts):
    """The next turn equals a turn on a session that was fed exactly the retained tokens."""
    case = golden["cases"][0]
    greedy = dict(temperature=0, seed=1)
    whole = group.client.generate(ids=case["ids"], sampling=greedy, stopping=dict(max_tokens=96, ignore_eos=True))
    for at in (3, 20, 41):
        stop = whole.text[at:at + 6]
        name = open_session(group, sp)
        first = group.client.generate(ids=case["ids"], session=name, max_drafts=drafts, sampling=greedy,
                                      stopping=dict(max_tokens=96, ignore_eos=True, stop_texts=[stop]))
        assert first.finished.position == len(case["ids"]) + len(first.token_ids)
        second = group.client.generate(ids=case["ids"][:7], session=name, position=first.finished.position, **TURN)
        fed = group.client.tokens(ids=case["ids"] + first.token_ids + case["ids"][:7], **TURN)
        assert second.token_ids == fed, (at, drafts)
        group.client.sessions.CloseSession(sp.CloseSessionRequest(session_id=name))


@pytest.mark.sanitize
def test_more_sessions_than_slots(new_group, sp, golden):
    """Idle sessions make room for each other and lose nothing."""
    group = new_group(verifier_flags=["--max-sequences=2", "--draft-schedule=0:8"])
    group.wait_for_drafter()
    names = [open_session(group, sp) for _ in range(6)]
    histories = {}
    for turn in range(2):
        for i, name in enumerate(names):
            new = golden["cases"][i]["ids"][:15 + turn]
            reply = group.client.generate(ids=new, session=name, **TURN)
            histories[name] = histories.get(name, []) + new
            assert reply.token_ids == group.client.tokens(ids=histories[name], **TURN), (turn, i)
            histories[name] += reply.token_ids
    wait_until(lambda: group.metrics()["tandem_sessions"] == 6, 5, "six sessions held")


@pytest.mark.sanitize
def test_idle_sessions_expire(group, sp):
    name = open_session(group, sp, idle_timeout_seconds=1)

    def gone():
        try:
            group.client.sessions.DescribeSession(sp.DescribeSessionRequest(session_id=name))
            return False
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.NOT_FOUND
    wait_until(gone, 10, "idle session closed")


@pytest.mark.sanitize
def test_chat_on_a_session_sends_only_the_new_turn(group, sp):
    from tandem.v1 import generation_pb2 as pb
    name = open_session(group, sp)
    total = 0
    for text in ("Hello", "And then?", "Thank you"):
        chat = pb.ChatInput(messages=[pb.ChatMessage(role=pb.ROLE_USER, content=text)])
        reply = group.client.generate(chat=chat, session=name, position=total, sampling=dict(temperature=0.5, seed=1),
                                      stopping=dict(max_tokens=20))
        assert reply.started.prompt_tokens < 20
        total = reply.finished.position
    group.client.sessions.CloseSession(sp.CloseSessionRequest(session_id=name))
