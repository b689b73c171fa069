"""The tandem command as a user runs it."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest
from processes import MODEL, free_port, wait_until
from timing import scaled


def run(binaries, *arguments, timeout=120, **options):
    return subprocess.run([str(binaries / "tandem"), *arguments], capture_output=True, text=True,
                          timeout=scaled(timeout), **options)


@pytest.fixture(scope="module")
def up(binaries, tmp_path_factory):
    """A running `tandem up`: (Popen, router address, log path)."""
    folder = tmp_path_factory.mktemp("up")
    address = f"127.0.0.1:{free_port()}"
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([str(binaries / "tandem"), "up", f"--model={MODEL}", f"--address={address}",
                                    f"--ready-file={folder / 'ready'}"], stdout=log, stderr=log, cwd=folder)
    wait_until(lambda: (folder / "ready").exists() or process.poll() is not None, 60, "tandem up")
    assert process.poll() is None, (folder / "log").read_text()
    yield process, address, folder / "log"
    process.send_signal(signal.SIGINT)
    assert process.wait(scaled(60)) == 0, (folder / "log").read_text()


@pytest.fixture
def runtime():
    """A folder for sockets, whose addresses must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield pathlib.Path(folder)


def children(pid):
    """{name: pid} of the living direct children."""
    names = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = open(f"/proc/{entry}/stat").read()
            except OSError:
                continue
            name, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
            if int(rest[1]) == pid and rest[0] != "Z":
                names[name] = int(entry)
    return names


@pytest.mark.sanitize
def test_generate_json_equals_golden(binaries, up, golden):
    case = golden["cases"][0]
    out = run(binaries, "generate", "--address", up[1], "--temperature", "0", "--max-tokens", "96", "--ignore-eos",
              "--json", case["text"])
    assert out.returncode == 0, out.stderr
    reply = json.loads(out.stdout)
    assert reply["text"] == case["greedy_text"] and reply["token_ids"] == case["greedy_96"]
    assert reply["usage"]["generated_tokens"] == 96 and reply["finish_reason"] == "MAX_TOKENS"
    assert reply["timings"]["time_to_first_token_seconds"] > 0


def test_show_drafts_prints_the_same_text_and_statistics(binaries, up, golden):
    case = golden["cases"][1]
    out = run(binaries, "generate", "--address", up[1], "--temperature", "0", "--max-tokens", "96", "--ignore-eos",
              "--show-drafts", "--color=always", case["text"])
    assert out.returncode == 0, out.stderr
    import re
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.stdout).strip() == case["greedy_text"].strip()
    assert "\x1b[" in out.stdout and "tokens per step" in out.stderr


@pytest.mark.parametrize("arguments, words", [
    (["generate", b"caf\xe9"], ["prompt", "not UTF-8 at byte 3"]),
    (["generate", "x", "--chat", "--system", b"\xff"], ["--system", "not UTF-8"]),
    (["generate", "x", "--stop", b"\xff"], ["--stop", "not UTF-8"]),
    (["generate", "x", "--request-id", b"\xff"], ["--request-id", "not UTF-8"]),
    (["chat", "--system", b"\xff"], ["--system", "not UTF-8"]),
    (["generate", "x", "--seed", "18446744073709551616"], ["--seed", "'18446744073709551616'", "18446744073709551615"]),
    (["generate", "x", "--session", "s", "--position", "-1"], ["--position", "'-1'"]),
    (["generate", "x", "--position", "1"], ["--position", "--session"]),
    (["generate", "x", "--timeout", "nan"], ["--timeout", "'nan'", "30s"]),
    (["up", "--model", str(MODEL), "--drain-timeout", "30"], ["--drain-timeout", "'30'", "30s"]),
    (["generate"], ["standard input is empty"]),
    (["generate", "two", "words"], ["quotes"]),
    (["generate", "--temprature", "1", "x"], ["--temprature"]),
    (["fly"], ["fly", "generate"]),
])
def test_a_wrong_command_line_is_one_line(binaries, arguments, words):
    out = run(binaries, *arguments, stdin=subprocess.DEVNULL)
    assert out.returncode == 2 and out.stderr.count("\n") == 1, out.stderr
    assert all(word in out.stderr for word in words), out.stderr


def test_standard_input_that_is_not_utf8(binaries, up):
    for command in ("generate", "chat"):
        out = subprocess.run([str(binaries / "tandem"), command, "--address", up[1]], input=b"ab\xff\n", capture_output=True)
        assert out.returncode == 2 and b"not UTF-8 at byte 2" in out.stderr, out.stderr


@pytest.mark.sanitize
def test_chat_reads_standard_input(binaries, up):
    out = run(binaries, "chat", "--address", up[1], "--max-tokens", "12", input="Hello\n/stats\n/quit\n")
    assert out.returncode == 0, out.stderr


@pytest.mark.sanitize
def test_inspect_names_shape_and_sidecar(binaries):
    out = run(binaries, "inspect", str(MODEL), "--json")
    assert out.returncode == 0, out.stderr
    facts = json.loads(out.stdout)
    assert facts["parameters"] == 9067264
    assert run(binaries, "inspect", str(MODEL)).returncode == 0


@pytest.mark.sanitize
def test_errors_are_one_line_that_helps(binaries, tmp_path):
    nowhere = run(binaries, "generate", "--address", "127.0.0.1:1", "x")
    assert nowhere.returncode == 1 and nowhere.stderr.count("\n") == 1 and "tandem up" in nowhere.stderr
    missing = run(binaries, "inspect", str(tmp_path / "missing"))
    assert missing.returncode == 2 and missing.stderr.count("\n") == 1 and "missing" in missing.stderr
    bad = run(binaries, "up", "--model", str(tmp_path))
    assert bad.returncode == 2 and str(tmp_path) in bad.stderr
    assert run(binaries, "generate", "--temprature", "1", "x").returncode == 2


def test_bench_compares_with_and_without_drafting(binaries, up, tmp_path):
    out = run(binaries, "bench", "--address", up[1], "--max-tokens", "24", "--concurrency", "1,2",
              "--json", str(tmp_path / "bench.json"), timeout=300)
    assert out.returncode == 0, out.stderr
    assert "ratio" in out.stdout
    json.loads((tmp_path / "bench.json").read_text())


def test_bench_of_synthetic_weights_says_so(binaries, tmp_path):
    """The whole path with weights from a seed; simulated acceptance keeps so many drafts."""
    common = ["bench", "--synthetic=tiny", "--up-flag=--backend=cpu", "-n", "64", "--concurrency=1", "--warm-up=0",
              "--router-samples=0", "--json", str(tmp_path / "bench.json")]
    out = run(binaries, *common, "--weights=fp8", "--draft-weights=fp8", "--simulate-accepted=1.5")
    assert out.returncode == 0, out.stderr
    result = json.loads((tmp_path / "bench.json").read_text())
    for text in (out.stdout, result["synthetic"]):
        assert "synthetic" in text and "simulated acceptance" in text
    assert result["model"]["weight_format"].startswith("fp8") and result["model"]["drafter_attached"]
    # 8 replies of about 25 steps each; the last step of a reply may be cut.
    assert 2.2 < result["levels"][0]["drafted"]["tokens_per_step"] < 2.6
    assert result["levels"][0]["plain"]["tokens_per_step"] == 1

    out = run(binaries, *common, "--draft=off", "--synthetic-zeros=0.5")
    assert out.returncode == 0, out.stderr
    result = json.loads((tmp_path / "bench.json").read_text())
    assert "synthetic" in out.stdout and "simulated" not in out.stdout + json.dumps(result)
    assert not result["model"]["drafter_attached"] and result["levels"][0]["different_replies"] == 0


def test_acceptance_of_a_real_model_is_never_simulated(binaries):
    out = subprocess.run([str(binaries / "tandem-verifier"), f"--model={MODEL}", "--simulate-accepted=1"],
                         capture_output=True, text=True, timeout=60)
    assert out.returncode == 2 and "--simulate-accepted" in out.stderr and "synthetic" in out.stderr


def test_bench_shows_what_it_has_before_an_error(binaries, up):
    small = ["bench", "--address", up[1], "--max-tokens", "4", "--concurrency", "1", "--warm-up", "0"]
    out = run(binaries, *small, "--prefill", "70000")
    assert out.returncode != 0 and "ratio" in out.stdout and "65536" in out.stderr, out.stderr
    out = run(binaries, *small, "--verifier", "127.0.0.1:1")
    assert out.returncode == 1 and out.stdout == "" and "--verifier" in out.stderr
    # A log gets a line every ten seconds, not one per block.
    begin = time.monotonic()
    lines = run(binaries, *small).stderr.count("\n")
    assert 1 <= lines <= 1 + (time.monotonic() - begin) / 10


def test_a_request_of_too_many_bytes_says_so(binaries, up):
    out = run(binaries, "generate", "--address", up[1], input="a" * (5 << 20))
    assert out.returncode == 1 and "too many bytes" in out.stderr and "--max-message-bytes" in out.stderr, out.stderr


@pytest.mark.sanitize
def test_up_restarts_a_dead_child(binaries, up, golden):
    process, address, log = up
    for name in ("tandem-drafter", "tandem-verifier", "tandem-router"):
        pid = children(process.pid)[name]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: children(process.pid).get(name, pid) != pid, 30, f"{name} restarted: {log}")

        def answers():
            out = run(binaries, "generate", "--address", address, "--temperature", "0", "--max-tokens", "8", "--json", "x")
            return out.returncode == 0
        wait_until(answers, 60, f"serving after {name} was killed")


def test_no_process_outlives_the_group(binaries, tmp_path, runtime):
    """Even when the supervisor itself is killed; the next group removes the files that are left."""
    start = [str(binaries / "tandem"), "up", f"--model={MODEL}", "--address=127.0.0.1:0", f"--ready-file={tmp_path / 'ready'}"]
    options = dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tmp_path, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    process = subprocess.Popen(start, **options)
    wait_until(lambda: (tmp_path / "ready").exists() or process.poll() is not None, 60, "tandem up")
    assert json.loads((tmp_path / "ready").read_text())["pid"] == process.pid
    second = subprocess.run(start, timeout=60, **options)
    assert second.returncode == 1 and str(process.pid) in second.stderr.decode()
    pids = children(process.pid).values()
    assert len(pids) == 3
    process.kill()
    process.communicate()
    wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 20, "children gone")
    assert (tmp_path / "ready").exists() and len(list(runtime.iterdir())) == 1
    third = subprocess.Popen(start, **options)
    ready = lambda: (tmp_path / "ready").exists() and json.loads((tmp_path / "ready").read_text())["pid"] == third.pid
    wait_until(ready, 60, "tandem up again")
    assert len(list(runtime.iterdir())) == 1
    third.send_signal(signal.SIGTERM)
    third.communicate(timeout=60)
    assert third.returncode == 0 and not (tmp_path / "ready").exists() and list(runtime.iterdir()) == []
