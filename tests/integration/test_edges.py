"""Edges of the API and of the processes: requests that do not parse, limits, dead routers, starts that must fail."""
import json
import shutil
import signal
import subprocess

import grpc
import pytest
from client import request
from processes import MODEL, Process, wait_until

LONG = dict(max_tokens=3000, ignore_eos=True)


@pytest.fixture(scope="module")
def sp():
    from tandem.v1 import session_pb2
    return session_pb2


def error_of(call):
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value


def text_field(number, text):
    """A length-delimited field of a message."""
    return bytes([number << 3 | 2, len(text)]) + text


@pytest.mark.sanitize
@pytest.mark.parametrize("method", ["Generate", "GenerateOnce", "Tokenize", "Cancel"])
def test_a_string_that_is_not_utf8_is_explained(group, method):
    """The bytes that a client sends whose library does not check strings."""
    channel, path = group.client.channel, f"/tandem.v1.GenerationService/{method}"
    number = 3 if method.startswith("Generate") else 1
    counter = f'tandem_requests_total{{method="{method}",outcome="INVALID_ARGUMENT"}}'
    before = group.router_metrics().get(counter, 0)
    body = text_field(number, b"abc\xff\xfe")
    if method == "Generate":
        error = error_of(lambda: list(channel.unary_stream(path)(body, timeout=10)))
    else:
        error = error_of(lambda: channel.unary_unary(path)(body, timeout=10))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
    assert method in error.details() and "UTF-8" in error.details()
    assert dict(error.trailing_metadata())["tandem-outcome"] == "INVALID_ARGUMENT"
    wait_until(lambda: group.router_metrics().get(counter, 0) == before + 1, 5, "the refusal counted once")
    assert group.client.generate(prompt="x", stopping=dict(max_tokens=3)).finished


def test_the_priority_field_wins_over_the_metadata(group):
    def call(message):
        return group.client.generation.GenerateOnce(message, timeout=60, metadata=[("tandem-priority", "loud")])
    stopping = dict(max_tokens=3)
    assert call(request(prompt="x", priority=5, stopping=stopping)).HasField("finished")
    error = error_of(lambda: call(request(prompt="x", stopping=stopping)))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "tandem-priority" in error.details()


def test_messages_tell_the_numbers_and_the_field(new_group, sp):
    group = new_group(drafter=False, verifier_flags=["--max-tokens-limit=8192"])
    error = error_of(lambda: group.client.generate(prompt="x", stopping=dict(max_tokens=4294967295)))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "stopping.max_tokens: is 4294967295, must be from 1 to 8192" in error.details()
    error = error_of(lambda: group.client.sessions.ListSessions(sp.ListSessionsRequest(page_token="garbage")))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "page_token" in error.details()


def test_sessions_beyond_the_verifiers_limit_are_refused_when_they_are_opened(new_group, sp):
    group = new_group(drafter=False, verifier_flags=["--max-sessions=2"])
    sessions = group.client.sessions
    names = [sessions.OpenSession(sp.OpenSessionRequest()).session_id for _ in range(2)]

    def refused():
        """Once the router knows: the verifier reports what it holds some milliseconds late."""
        try:
            sessions.CloseSession(sp.CloseSessionRequest(session_id=sessions.OpenSession(sp.OpenSessionRequest()).session_id))
            return False
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
            assert b"RetryInfo" in dict(error.trailing_metadata())["grpc-status-details-bin"]
            return True
    for name in [None, *names]:
        if name:
            assert group.client.generate(prompt="x", session=name, stopping=dict(max_tokens=3)).finished
            wait_until(lambda: group.metrics()["tandem_sessions"] == names.index(name) + 1, 5, "the session placed")
        wait_until(refused, 5, "no room")
    sessions.CloseSession(sp.CloseSessionRequest(session_id=names[0]))

    def opens():
        try:
            return sessions.OpenSession(sp.OpenSessionRequest())
        except grpc.RpcError:
            return None
    wait_until(opens, 5, "room again")


@pytest.mark.sanitize
def test_what_a_killed_router_held_goes_away(new_group, sp):
    """Its running request at once, its sessions after the lease; those of a client of the verifier itself stay."""
    from tandem.v1 import session_pb2_grpc
    group = new_group(drafter=False)
    with grpc.insecure_channel(group.verifier_info[0]["address"]) as channel:
        direct = session_pb2_grpc.SessionServiceStub(channel)
        direct.OpenSession(sp.OpenSessionRequest(session_id="direct"))
        for _ in range(2):
            name = group.client.sessions.OpenSession(sp.OpenSessionRequest()).session_id
            assert group.client.generate(prompt="x", session=name, stopping=dict(max_tokens=3)).finished
        call = group.client.stream(prompt="x", session=name, stopping=LONG)
        for _ in range(5):
            next(call)
        assert group.metrics()["tandem_sessions"] == 3
        group.router.kill()
        group.client.close()
        done = 'tandem_requests_total{method="Generate",outcome="CANCELLED"}'
        wait_until(lambda: group.metrics().get(done) == 1, 5, "the running request cancelled")
        wait_until(lambda: group.metrics()["tandem_sessions"] == 1, 20, "the dead router's sessions closed")
        assert group.metrics()["tandem_state_slots_used"] == 0
        listed = direct.ListSessions(sp.ListSessionsRequest()).sessions
        assert [s.session_id for s in listed] == ["direct"]
        group.start_router()
        assert group.client.generate(prompt="x", stopping=dict(max_tokens=3)).finished


def test_a_broken_connection_loses_no_session(new_group, sp):
    """A verifier that stands still breaks the router's load stream, not the sessions."""
    group = new_group(drafter=False)
    name = group.client.sessions.OpenSession(sp.OpenSessionRequest()).session_id
    first = group.client.generate(prompt="hello there", session=name, stopping=dict(max_tokens=8, ignore_eos=True))
    verifier = group.verifiers[0].popen
    verifier.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: group.router_metrics()["tandem_verifiers_up"] == 0, 20, "the silence noticed")
    finally:
        verifier.send_signal(signal.SIGCONT)
    wait_until(lambda: group.router_metrics()["tandem_verifiers_up"] == 1, 20, "the verifier back")
    second = group.client.generate(prompt=" and", session=name, position=first.finished.position,
                                   stopping=dict(max_tokens=3))
    assert second.started.cached_prompt_tokens >= first.finished.position - 1, "the state was still there"


@pytest.mark.parametrize("binary", ["tandem-router", "tandem-verifier", "tandem-drafter"])
def test_a_ready_file_that_cannot_be_written_ends_the_start(binaries, tmp_path, binary):
    flags = {"tandem-router": ["--verifiers=127.0.0.1:1", "--address=127.0.0.1:0"],
             "tandem-verifier": [f"--model={MODEL}"],
             "tandem-drafter": [f"--model={MODEL}", f"--socket={tmp_path / 'draft.sock'}"]}[binary]
    ready = tmp_path / "nowhere" / "ready"
    run = subprocess.run([str(binaries / binary), *flags, f"--ready-file={ready}"], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 1, run.stderr
    assert "--ready-file" in run.stderr and str(ready) in run.stderr


def test_a_ready_file_of_an_earlier_process_is_removed_first(binaries, tmp_path):
    ready = tmp_path / "ready"
    ready.write_text("old")
    process = subprocess.Popen([str(binaries / "tandem-router"), "--verifiers=127.0.0.1:1", "--address=127.0.0.1:0",
                                f"--ready-file={ready}"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: not ready.exists(), 10, "the old ready file removed")
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize("flags", [["--max-sequences=0"], ["--prefill-budget=2000000000"], ["--stall-limit=0"],
                                   ["--threads=-1"]])
def test_flags_out_of_range_end_the_start(binaries, flags):
    run = subprocess.run([str(binaries / "tandem-verifier"), f"--model={MODEL}", *flags], capture_output=True,
                         text=True, timeout=60)
    assert run.returncode == 2 and flags[0].split("=")[0] in run.stderr, run.stderr


def test_a_drafter_with_another_sidecar_is_refused_and_nothing_fails(new_group, tmp_path):
    group = new_group(drafter=False, verifier_flags=["--draft-schedule=0:8"])
    sidecar = tmp_path / "mtp"
    shutil.copytree(MODEL / "mtp", sidecar)
    config = json.loads((sidecar / "mtp.json").read_text())
    config["meta"]["ctx"] = 256
    (sidecar / "mtp.json").write_text(json.dumps(config))
    group.drafters[0] = Process(group.binaries / "tandem-drafter", [
        f"--socket={group.socket_path(0)}", f"--mtp-path={sidecar}", "--metrics-address=127.0.0.1:0", "--threads=1"],
        group.folder, "drafter0")
    group.drafters[0].wait_ready()
    wait_until(lambda: "SIDECAR_DIFFERS" in group.drafters[0].tail(), 10, "the refusal logged")
    reply = group.client.generate(prompt="x", stopping=dict(max_tokens=8, ignore_eos=True))
    assert reply.finished and reply.usage.drafted_tokens == 0
    assert group.metrics()["tandem_drafter_attached"] == 0
    assert group.metrics()['tandem_drafter_attaches_total{result="SIDECAR_DIFFERS"}'] >= 1
