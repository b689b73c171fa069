"""A dead, paused, late, restarted or lying drafter, and dying verifiers: never a failed request, never a wrong token."""
import signal
import threading

import pytest
from processes import ENDLESS, wait_until
from timing import shorter

SAMPLED = dict(temperature=1, top_p=0.9, presence_penalty=0.4, frequency_penalty=0.3, repetition_penalty=1.1,
               penalty_decay=0.98, seed=11)
GREEDY = dict(temperature=0, seed=11)
LENGTH = shorter(400, 100)
LONG = dict(max_tokens=LENGTH, ignore_eos=True)
# The same tokens of a stream that cannot have ended before the test does something to it.
RUNNING = dict(stopping=ENDLESS, stop_after=LENGTH)


def after_tokens(count, action):
    """An on_reply callback that runs action once when so many tokens are there."""
    def on_reply(reply):
        if len(reply.token_ids) >= count and not on_reply.done:
            on_reply.done = True
            action()
    on_reply.done = False
    return on_reply


def test_starts_without_a_drafter_and_takes_a_late_one(new_group, golden):
    group = new_group(drafter=False)
    ids = golden["cases"][0]["ids"]
    plain = group.client.generate(ids=ids, sampling=SAMPLED, stopping=LONG)
    assert plain.usage.drafted_tokens == 0
    assert group.client.generation.GetModel(pb().GetModelRequest()).drafter.attached is False
    group.start_drafter()
    group.wait_for_drafter()
    drafted = group.client.generate(ids=ids, sampling=SAMPLED, stopping=LONG)
    assert drafted.token_ids == plain.token_ids and drafted.usage.accepted_tokens > 0
    status = group.client.generation.GetModel(pb().GetModelRequest()).drafter
    assert status.attached and status.mode == "host" and status.round_trip_seconds > 0
    assert any(k.startswith('tandem_handoff_info{mode="host"') and v == 1 for k, v in group.metrics().items())


def busy_verifier(group):
    """The index of the one that runs the only stream; its gauge follows at the end of a pass."""
    return wait_until(lambda: [i for i in range(len(group.verifiers)) if group.metrics(i)["tandem_state_slots_used"] > 0],
                      20, "a busy verifier")[0]


def pb():
    from tandem.v1 import generation_pb2
    return generation_pb2


def test_drafter_first_verifier_later(new_group, golden):
    group = new_group(drafter=False)
    group.verifiers[0].terminate()
    group.start_drafter(0, wait=False)
    wait_until(lambda: "trying again" in group.drafters[0].tail(), 20, "the drafter has found no verifier")
    group.start_verifier(0)
    group.wait_for_drafter()
    reply = group.client.generate(ids=golden["cases"][1]["ids"], sampling=GREEDY, stopping=LONG)
    assert reply.usage.accepted_tokens > 0


@pytest.mark.sanitize
def test_drafter_killed_at_many_moments(new_group, golden):
    group = new_group()
    group.wait_for_drafter()
    for moment, case in zip((1, 2, 5, 40, 90), golden["cases"]):
        plain = group.client.tokens(ids=case["ids"], max_drafts=0, sampling=SAMPLED, stopping=LONG)
        reply = group.client.generate(ids=case["ids"], sampling=SAMPLED, **RUNNING,
                                      on_reply=after_tokens(moment, group.drafters[0].kill))
        assert reply.token_ids[:LENGTH] == plain
        group.wait_for_drafter(attached=False)
        group.start_drafter()
        group.wait_for_drafter()
    assert group.metrics()['tandem_drafter_attaches_total{result="ok"}'] >= 6


@pytest.mark.sanitize
def test_paused_drafter_costs_time_only(new_group, golden):
    """SIGSTOP in mid-stream: the stream goes on plainly, the lease ends, SIGCONT brings the drafter back by itself."""
    group = new_group()
    group.wait_for_drafter()
    case = golden["cases"][3]
    plain = group.client.tokens(ids=case["ids"], max_drafts=0, sampling=SAMPLED, stopping=LONG)
    drafter = group.drafters[0].popen
    reply = group.client.generate(ids=case["ids"], sampling=SAMPLED, **RUNNING,
                                  on_reply=after_tokens(20, lambda: drafter.send_signal(signal.SIGSTOP)))
    assert reply.token_ids[:LENGTH] == plain
    again = group.client.generate(ids=case["ids"], sampling=SAMPLED, stopping=LONG)
    assert again.token_ids == plain
    drafter.send_signal(signal.SIGCONT)
    wait_until(lambda: group.client.generate(ids=case["ids"], sampling=SAMPLED, stopping=LONG).usage.accepted_tokens > 0,
               30, "drafting again after SIGCONT")
    assert group.client.tokens(ids=case["ids"], sampling=SAMPLED, stopping=LONG) == plain


def test_verifier_restarts_under_a_living_drafter(new_group, golden):
    group = new_group()
    group.wait_for_drafter()
    case = golden["cases"][4]
    before = group.client.tokens(ids=case["ids"], sampling=SAMPLED, stopping=LONG)
    group.verifiers[0].kill()
    group.start_verifier(0)
    group.wait_for_drafter()
    after = group.client.generate(ids=case["ids"], sampling=SAMPLED, stopping=LONG)
    assert after.token_ids == before and after.usage.accepted_tokens > 0


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("verifiers", [1, 2])
@pytest.mark.sanitize
def test_killed_verifier_is_only_a_pause(new_group, golden, sampling, verifiers):
    """kill -9 in mid-stream, with logprobs on: same tokens, same text, same logprobs, no error."""
    group = new_group(verifiers=verifiers)
    for i in range(verifiers):
        group.wait_for_drafter(i)
    case = golden["cases"][5]
    options = dict(ids=case["ids"], sampling=sampling, stopping=LONG, top_logprobs=3)
    whole = group.client.generate(**options)

    def kill():
        """The verifier that runs the stream; a lone one comes back on its port."""
        busy = busy_verifier(group)
        group.verifiers[busy].kill()
        group.start_verifier(busy, wait=False)

    for moment in (1, 30, shorter(150, 60)):
        cut = group.client.generate(on_reply=after_tokens(moment, kill), stop_after=LENGTH, **dict(options, stopping=ENDLESS))
        assert cut.failed is None
        assert cut.token_ids[:LENGTH] == whole.token_ids
        # The text of the last tokens may still be held back, as half a character.
        assert len(cut.text) > len(whole.text) * 0.9 and whole.text.startswith(cut.text[:len(whole.text)])
        assert cut.logprobs[:LENGTH] == whole.logprobs
        for i in range(verifiers):
            group.verifier_info[i] = group.verifiers[i].wait_ready()
            wait_until(lambda: group.metrics(i)["tandem_state_slots_used"] == 0, 20, "slots free")
    wait_until(lambda: group.router_metrics()["tandem_resumed_streams_total"] >= 3, 20, "three streams resumed")


@pytest.mark.sanitize
def test_resumed_reply_ends_like_an_undisturbed_one(new_group, golden):
    """kill -9 after the first token; the terminal event counts all tokens once."""
    group = new_group()
    group.wait_for_drafter()
    options = dict(ids=golden["cases"][5]["ids"], sampling=SAMPLED, stopping=dict(max_tokens=shorter(1500, 150), ignore_eos=True))
    whole = group.client.generate(**options)

    def kill():
        group.verifiers[0].kill()
        group.start_verifier(0, wait=False)

    cut = group.client.generate(on_reply=after_tokens(1, kill), **options)
    assert cut.finished is not None, cut.failed
    assert (cut.token_ids, cut.text, cut.finished.reason) == (whole.token_ids, whole.text, whole.finished.reason)
    assert cut.usage.generated_tokens == whole.usage.generated_tokens == options["stopping"]["max_tokens"]
    group.verifier_info[0] = group.verifiers[0].wait_ready()


def test_killed_verifier_with_stop_text(new_group, golden):
    """The stop text lies behind the kill; the reply ends exactly where the undisturbed one ends."""
    group = new_group()
    group.wait_for_drafter()
    case = golden["cases"][0]
    whole = group.client.generate(ids=case["ids"], sampling=GREEDY, stopping=LONG)
    word = whole.text[len(whole.text) // 2:][:8]
    stopping = dict(LONG, stop_texts=[word])
    expected = group.client.generate(ids=case["ids"], sampling=GREEDY, stopping=stopping)
    assert expected.finished.reason == pb().FINISH_REASON_STOP_TEXT
    assert expected.text == whole.text[:whole.text.index(word)]

    def kill():
        group.verifiers[0].kill()
        group.start_verifier(0, wait=False)

    cut = group.client.generate(ids=case["ids"], sampling=GREEDY, stopping=stopping, on_reply=after_tokens(2, kill))
    assert (cut.text, cut.token_ids, cut.finished.stop_text) == (expected.text, expected.token_ids, word)
    group.verifier_info[0] = group.verifiers[0].wait_ready()


@pytest.mark.sanitize
def test_session_survives_its_verifier(new_group, golden):
    """A session whose verifier was killed continues with the tokens it would have had."""
    from tandem.v1 import session_pb2
    group = new_group()
    case = golden["cases"][6]
    turn = dict(sampling=SAMPLED, stopping=dict(max_tokens=40, ignore_eos=True))
    results = []
    for kill in (False, True):
        session = group.client.sessions.OpenSession(session_pb2.OpenSessionRequest()).session_id
        first = group.client.generate(ids=case["ids"], session=session, **turn)
        if kill:
            group.verifiers[0].kill()
            group.start_verifier(0)
        second = group.client.generate(ids=case["ids"][:20], session=session, position=first.finished.position, **turn)
        assert second.finished is not None, second.failed
        results.append((first.token_ids, second.token_ids, second.finished.position))
    assert results[0] == results[1]


def test_drain_moves_streams_to_the_other_verifier(new_group, golden):
    """SIGTERM to the busy verifier with a short drain time: the stream goes on elsewhere."""
    group = new_group(verifiers=2, verifier_flags=["--drain-timeout=0"])
    case = golden["cases"][7]
    whole = group.client.tokens(ids=case["ids"], sampling=SAMPLED, stopping=LONG)
    ended = []

    def drain():
        ended.append(group.verifiers[busy_verifier(group)].terminate())

    reply = group.client.generate(ids=case["ids"], sampling=SAMPLED, on_reply=after_tokens(5, drain), **RUNNING)
    assert reply.token_ids[:LENGTH] == whole and ended == [0]
    assert group.router_metrics()["tandem_resumed_streams_total"] == 1


def test_router_drains_cleanly(new_group, golden):
    """SIGTERM lets a running stream finish, then the process exits 0."""
    group = new_group(router_flags=["--drain-timeout=10m"])
    ended = []
    reply = group.client.generate(
        ids=golden["cases"][0]["ids"], sampling=GREEDY, stopping=LONG,
        on_reply=after_tokens(3, lambda: threading.Thread(target=lambda: ended.append(group.router.terminate())).start()))
    assert reply.finished is not None and len(reply.token_ids) == LENGTH
    wait_until(lambda: ended, 30, "router ends")
    assert ended == [0]
