"""The public API against the real processes: inputs, limits, errors, health, reflection."""
import grpc
import pytest
from client import request
from processes import ENDLESS, wait_until

pytestmark = pytest.mark.sanitize
GREEDY = dict(temperature=0)


@pytest.fixture(scope="module")
def pb():
    from tandem.v1 import generation_pb2
    return generation_pb2


def refused(group, code, words, message=None, **fields):
    """The call fails before `started` with this code and these words in its message."""
    with pytest.raises(grpc.RpcError) as error:
        group.client.generate(message, **fields) if message else group.client.generate(**fields)
    assert error.value.code() == code, error.value
    for word in [words] if isinstance(words, str) else words:
        assert word in error.value.details(), error.value.details()
    return error.value


def test_text_equals_its_token_ids(group, golden):
    for case in golden["cases"]:
        stopping = dict(max_tokens=24, ignore_eos=True)
        by_text = group.client.generate(prompt=case["text"], sampling=GREEDY, stopping=stopping)
        assert by_text.token_ids == case["greedy_96"][:24]
        assert by_text.started.prompt_tokens == len(case["ids"])
        whole = group.client.generate(prompt=case["text"], sampling=GREEDY, stopping=dict(max_tokens=96, ignore_eos=True))
        assert whole.text == case["greedy_text"]


def test_once_equals_the_stream(group, golden, pb):
    # Without drafts, whose number in the usage depends on whether they came in time.
    message = request(prompt=golden["cases"][0]["text"], sampling=GREEDY, stopping=dict(max_tokens=30), top_logprobs=2,
                      max_drafts=0)
    stream = group.client.generate(message)
    once = group.client.generation.GenerateOnce(message)
    assert list(once.output.token_ids) == stream.token_ids and once.output.text == stream.text
    assert once.finished.usage == stream.finished.usage
    assert len(once.output.logprobs) == 30 and all(len(l.top) == 2 for l in once.output.logprobs)
    for entry in once.output.logprobs:
        assert entry.top[0].token_id == entry.token_id and entry.top[0].logprob == entry.logprob


def test_tokenize_and_detokenize(group, golden, pb):
    for case in golden["cases"]:
        tokens = group.client.generation.Tokenize(pb.TokenizeRequest(text=case["text"]))
        assert list(tokens.ids) == case["ids"]
        assert b"".join(tokens.pieces) == case["text"].encode()
        assert group.client.generation.Detokenize(pb.DetokenizeRequest(ids=case["ids"])).text == case["text"]


def test_chat_is_the_template(group, pb):
    chat = pb.ChatInput(messages=[pb.ChatMessage(role=pb.ROLE_SYSTEM, content="Be\n\n\nbrief. "),
                                  pb.ChatMessage(role=pb.ROLE_USER, content="Hello\r\nthere")])
    ids = group.client.generation.Tokenize(pb.TokenizeRequest(chat=chat)).ids
    text = group.client.generation.Detokenize(pb.DetokenizeRequest(ids=ids)).text
    assert text == "System: Be\nbrief.\n\nUser: Hello\nthere\n\nAssistant:"
    for think, ending in ((pb.THINK_MODE_ON, "Assistant: <think"), (pb.THINK_MODE_SKIP, "</think")):
        chat.think = think
        ids = group.client.generation.Tokenize(pb.TokenizeRequest(chat=chat)).ids
        assert group.client.generation.Detokenize(pb.DetokenizeRequest(ids=ids)).text.endswith(ending)
    reply = group.client.generate(chat=chat, sampling=GREEDY, stopping=dict(max_tokens=60))
    assert reply.finished is not None and "\nUser:" not in reply.text


def test_stop_texts_end_the_reply_exactly(group, golden, pb):
    """A stop at every place of the reply, also across tokens: text, ids, logprobs and usage end together."""
    case = golden["cases"][0]
    base = dict(prompt=case["text"], sampling=GREEDY, top_logprobs=0)
    whole = group.client.generate(stopping=dict(max_tokens=96, ignore_eos=True), **base)
    for at in range(0, 60, 7):
        stop = whole.text[at:at + 5]
        for include in (False, True):
            reply = group.client.generate(stopping=dict(max_tokens=96, ignore_eos=True, stop_texts=[stop, "zzzz"],
                                                        include_stop_in_output=include), **base)
            end = whole.text.index(stop) + (len(stop) if include else 0)
            assert reply.text == whole.text[:end], (at, include)
            assert reply.finished.reason == pb.FINISH_REASON_STOP_TEXT and reply.finished.stop_text == stop
            assert reply.token_ids == whole.token_ids[:len(reply.token_ids)]
            assert len(reply.logprobs) == len(reply.token_ids) == reply.usage.generated_tokens
            kept = group.client.generation.Detokenize(pb.DetokenizeRequest(ids=reply.token_ids)).raw
            if not include:  # all kept bytes are text, except of a last token that reaches into the stop
                assert kept.startswith(reply.text.encode()) and (reply.text + stop).encode().startswith(kept)


def test_stop_tokens_and_limits(group, golden, pb):
    case = golden["cases"][1]
    for drafts in (0, 3, 8):
        for limit in (1, 2, 3, 5, 17):
            reply = group.client.generate(ids=case["ids"], sampling=GREEDY, max_drafts=drafts,
                                          stopping=dict(max_tokens=limit, ignore_eos=True))
            assert reply.token_ids == case["greedy_96"][:limit]
            assert reply.finished.reason == pb.FINISH_REASON_MAX_TOKENS
        stop = case["greedy_96"][10]
        first = case["greedy_96"].index(stop)
        for include in (False, True):
            reply = group.client.generate(ids=case["ids"], sampling=GREEDY, max_drafts=drafts, stopping=dict(
                max_tokens=96, ignore_eos=True, stop_token_ids=[stop], include_stop_in_output=include))
            assert reply.token_ids == case["greedy_96"][:first + include]
            assert reply.finished.reason == pb.FINISH_REASON_STOP_TOKEN and reply.finished.stop_token_id == stop
        held = group.client.generate(ids=case["ids"], sampling=GREEDY, max_drafts=drafts, stopping=dict(
            max_tokens=96, min_tokens=first + 3, ignore_eos=True, stop_token_ids=[stop]))
        assert len(held.token_ids) >= first + 3 and stop not in held.token_ids[:first + 3]


BAD_FIELDS = [
    (dict(sampling=dict(temperature=-0.1)), "sampling.temperature"),
    (dict(sampling=dict(temperature=float("nan"))), "sampling.temperature"),
    (dict(sampling=dict(temperature=101)), "sampling.temperature"),
    (dict(sampling=dict(top_p=0)), "sampling.top_p"),
    (dict(sampling=dict(top_p=1.01)), "sampling.top_p"),
    (dict(sampling=dict(min_p=1)), "sampling.min_p"),
    (dict(sampling=dict(presence_penalty=float("inf"))), "sampling.presence_penalty"),
    (dict(sampling=dict(frequency_penalty=-101)), "sampling.frequency_penalty"),
    (dict(sampling=dict(repetition_penalty=0)), "sampling.repetition_penalty"),
    (dict(sampling=dict(penalty_decay=0)), "sampling.penalty_decay"),
    (dict(stopping=dict(max_tokens=0)), "stopping.max_tokens"),
    (dict(stopping=dict(max_tokens=5, min_tokens=6)), "stopping.min_tokens"),
    (dict(stopping=dict(stop_texts=[""])), "stopping.stop_texts"),
    (dict(stopping=dict(stop_texts=["x"] * 17)), "stopping.stop_texts"),
    (dict(stopping=dict(stop_token_ids=[4096])), "stopping.stop_token_ids"),
    (dict(max_drafts=9), "speculation.max_drafts"),
    (dict(top_logprobs=21), "output.top_logprobs"),
    (dict(priority=101), "priority"),
    (dict(request_id="a b"), "request_id"),
    (dict(request_id="x" * 129), "request_id"),
]


@pytest.mark.parametrize("fields,name", BAD_FIELDS, ids=[f"{i}-{n}" for i, (_, n) in enumerate(BAD_FIELDS)])
def test_bad_fields_are_named(group, fields, name):
    from google.rpc import error_details_pb2, status_pb2
    error = refused(group, grpc.StatusCode.INVALID_ARGUMENT, name, prompt="x", **fields)
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(details)
    bad = error_details_pb2.BadRequest()
    assert any(d.Unpack(bad) for d in status.details)
    assert bad.field_violations[0].field.startswith(name)


def test_bad_input_is_refused_and_harms_nobody(group, pb, golden):
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    refused(group, invalid, "input")
    refused(group, invalid, "prompt", prompt="")
    refused(group, invalid, "tokens", ids=[])
    refused(group, invalid, "prompt_utf8", message=pb.GenerateRequest(prompt_utf8=b"caf\xe9"))
    refused(group, invalid, "tokens", ids=[5, 4096])
    refused(group, invalid, "chat", chat=pb.ChatInput())
    refused(group, grpc.StatusCode.NOT_FOUND, "no-such", prompt="x", session="no-such")
    refused(group, grpc.StatusCode.NOT_FOUND, "other-model", prompt="x", model="other-model")
    biased = request(prompt="x")
    biased.sampling.logit_bias.add(token_id=1, bias=float("nan"))
    refused(group, invalid, "sampling.logit_bias", message=biased)
    refused(group, invalid, "resume", message=pb.GenerateRequest(prompt="x", resume=pb.ResumeParameters(emitted_ids=[1])))
    with pytest.raises(grpc.RpcError) as error:
        group.client.generation.Cancel(pb.CancelRequest(request_id="nobody"))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    case = golden["cases"][0]
    assert group.client.tokens(ids=case["ids"], sampling=GREEDY,
                               stopping=dict(max_tokens=20)) == case["greedy_96"][:20]


def test_resuming_behind_a_stop_text_is_refused(group, golden, pb):
    case = golden["cases"][0]
    stop = case["greedy_text"][4:9]
    message = request(prompt=case["text"], sampling=dict(temperature=0, seed=1), stopping=dict(max_tokens=96, stop_texts=[stop]))
    message.resume.emitted_ids.extend(case["greedy_96"][:20])
    refused(group, grpc.StatusCode.INVALID_ARGUMENT, "resume.emitted_ids", message=message)


def test_a_megabyte_of_prompt(group, golden):
    """Served, or refused as too long; nothing else."""
    text = ("The quick brown fox. " * 50000)[:1 << 20]
    try:
        reply = group.client.generate(prompt=text, stopping=dict(max_tokens=2), timeout=300)
        assert reply.finished is not None
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.OUT_OF_RANGE and "tokens" in error.details()
    assert group.client.generate(prompt="x", stopping=dict(max_tokens=2)).finished is not None


def test_cancel_by_id_and_by_disconnect(group, pb):
    call = group.client.stream(prompt="x", request_id="long-one", stopping=ENDLESS)
    next(call)
    with pytest.raises(grpc.RpcError) as error:
        group.client.generate(prompt="x", request_id="long-one")
    assert error.value.code() == grpc.StatusCode.ALREADY_EXISTS
    group.client.generation.Cancel(pb.CancelRequest(request_id="long-one"))
    with pytest.raises(grpc.RpcError) as error:
        for _ in call:
            pass
    assert error.value.code() == grpc.StatusCode.CANCELLED
    gone = group.client.stream(prompt="x", stopping=ENDLESS)
    next(gone)
    gone.cancel()
    wait_until(lambda: group.metrics()["tandem_state_slots_used"] == 0, 10, "slots free after cancellation")


def test_deadline_ends_a_stream_and_frees_it(group):
    with pytest.raises(grpc.RpcError) as error:
        group.client.generate(prompt="x", stopping=ENDLESS, timeout=0.2)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: group.metrics()["tandem_state_slots_used"] == 0, 10, "slots free after the deadline")


def test_overload_is_answered_at_once(new_group):
    from google.rpc import error_details_pb2, status_pb2
    group = new_group(drafter=False, verifier_flags=["--max-sequences=2", "--queue-limit=1"])
    with group.client.running(prompt="x", stopping=ENDLESS), group.client.running(prompt="x", stopping=ENDLESS):
        waiting = group.client.stream(prompt="x", stopping=ENDLESS)
        wait_until(lambda: group.metrics()["tandem_queue_depth"] == 1, 10, "the third request waits")
        error = refused(group, grpc.StatusCode.RESOURCE_EXHAUSTED, "", prompt="x")
        waiting.cancel()
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    retry = error_details_pb2.RetryInfo()
    assert any(d.Unpack(retry) for d in status.details) and retry.retry_delay.ToNanoseconds() > 0


def test_health_and_reflection(group):
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
    health = health_pb2_grpc.HealthStub(group.client.channel)
    for service in ("", "tandem.v1.GenerationService", "tandem.v1.SessionService", "liveness", "readiness"):
        assert health.Check(health_pb2.HealthCheckRequest(service=service)).status == 1, service
    names = ProtoReflectionDescriptorDatabase(group.client.channel).get_services()
    assert {"tandem.v1.GenerationService", "tandem.v1.SessionService", "grpc.health.v1.Health"} <= set(names)


def test_verifier_serves_token_ids_only(group, golden):
    from client import Client
    direct = Client(group.verifier_info[0]["address"])
    case = golden["cases"][2]
    reply = direct.generate(ids=case["ids"], sampling=GREEDY, stopping=dict(max_tokens=12))
    assert reply.token_ids == case["greedy_96"][:12] and reply.text == ""
    for fields in (dict(prompt="x"), dict(ids=[1], stopping=dict(stop_texts=["x"]))):
        with pytest.raises(grpc.RpcError) as error:
            direct.generate(**fields)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    direct.close()


def test_wrong_sidecar_is_refused(binaries, tmp_path):
    """A sidecar of another base model ends the drafter with both names in the error; forcing attaches it."""
    import json
    import shutil
    from processes import Group, MODEL
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("golden"))
    meta = json.loads((folder / "mtp" / "mtp.json").read_text())
    meta["meta"]["base_model"] = "somebody-else"
    (folder / "mtp" / "mtp.json").write_text(json.dumps(meta))
    group = Group(binaries, tmp_path / "refused", model=folder, drafter=False)
    try:
        group.start()
    except AssertionError as error:
        assert "somebody-else" in str(error) and "rwkv7-demo-9m" in str(error)
    else:
        group.start_drafter(0, wait=False)
        wait_until(lambda: "somebody-else" in group.drafters[0].tail() + group.verifiers[0].tail(), 20, "the refusal")
        assert group.client.generate(prompt="x", stopping=dict(max_tokens=3)).finished is not None
        group.drafters[0].kill()
    finally:
        for process in (group.router, *group.verifiers):
            if process and process.popen.poll() is None:
                process.terminate()
