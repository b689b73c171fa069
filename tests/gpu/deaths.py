"""What a death does: ends processes of a serving group, in every way that a GPU knows, and checks that nobody notices
more than a pause; see deaths.sh."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import serve
from serve import FORMATS, GOLDEN, finished, wait_until

PROMPT = GOLDEN[0]["ids"]
STREAMS = 2
# A GPU takes a second or two for these.
TOKENS = {"cuda": 6000, "cpu": 1500}
# Tokens of all streams before something dies.
BEFORE = 200
# What may stay: contexts of others come and go.
MEMORY_SLACK_MIB = 64


class Skipped(Exception):
    """The case needs something that this machine or mode has not got."""


def gpu_memory():
    """MiB in use on the first GPU; 0 without one."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                             capture_output=True, text=True, check=True).stdout
        return int(out.split()[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return 0


def pids(group):
    return group.ready["pids"]


def environment(pid):
    with open(f"/proc/{pid}/environ") as file:
        return dict(item.split("=", 1) for item in file.read().split("\0") if "=" in item)


def generated(group):
    try:
        return group.counter("tandem_generated_tokens_total")
    except OSError:  # the verifier is being started again
        return 0


# What dies. Each returns once it is dead.

def kill_drafter(group, options):
    os.kill(pids(group)["drafter"], signal.SIGKILL)


def kill_verifier(group, options):
    os.kill(pids(group)["verifier"], signal.SIGKILL)


def kill_daemon(group, options):
    if "mps" not in pids(group):
        raise Skipped("no daemon")
    os.kill(pids(group)["mps"], signal.SIGKILL)


def fault_client(options):
    program = options.build / "bin" / "fault_client"
    if options.backend != "cuda" or not program.exists():
        raise Skipped("no fault_client or no GPU")
    return program


def fault(group, options):
    """Another client of the same GPU, and of the same MPS server, faults."""
    out = subprocess.run([fault_client(options)], env=environment(pids(group)["verifier"]), capture_output=True, text=True,
                         timeout=60)
    assert out.returncode == 0, f"fault_client: {out.stdout}{out.stderr}"


def kill_in_kernel(group, options):
    """Another client of the same GPU, and of the same MPS server, is killed in the middle of a kernel."""
    with subprocess.Popen([fault_client(options), "spin"], env=environment(pids(group)["verifier"]), text=True,
                          stdout=subprocess.PIPE) as client:
        line = client.stdout.readline()
        client.kill()
    assert line == "spinning\n", f"fault_client: {line}"


def terminate_drafter(group, options):
    """The daemon takes the drafter's work off the GPU, and then it is killed: the order of the supervisor."""
    if "mps" not in pids(group) or options.backend != "cuda":
        raise Skipped("no daemon")
    env = environment(pids(group)["verifier"])

    def ask(line):
        return subprocess.run(["nvidia-cuda-mps-control"], input=line + "\n", env=env, capture_output=True, text=True,
                              timeout=30).stdout
    for server in ask("get_server_list").split():
        ask(f"terminate_client {server} {pids(group)['drafter']}")
    kill_drafter(group, options)


# Name, what dies, in mid-stream, who may be started again beside those who must: {role: must}.
CASES = [
    ("drafter killed, idle", kill_drafter, False),
    *[(f"drafter killed, {i}", kill_drafter, True) for i in range(1, 5)],
    ("drafter terminated", terminate_drafter, True),
    ("fault of another", fault, True),
    ("fault of another, idle", fault, False),
    ("killed in a kernel", kill_in_kernel, True),
    ("verifier killed", kill_verifier, True),
    ("verifier killed, idle", kill_verifier, False),
    ("daemon killed", kill_daemon, True),
]
MUST_CHANGE = {kill_drafter: "drafter", terminate_drafter: "drafter", kill_verifier: "verifier", kill_daemon: "mps"}


def healthy(group, before, changed, plain):
    """Everybody who died is back, drafts are made, and the text is the same."""
    wait_until(lambda: changed is None or pids(group).get(changed) != before[changed], 60, f"a new {changed}")
    group.wait_attached()
    reply = wait_until(lambda: short_reply(group), 30, "a reply")
    assert reply["token_ids"] == plain[:200], "another text after the restart"


def short_reply(group):
    """None while the group cannot draft again yet: the drafter may still have to attach."""
    process = group.generate(PROMPT, 3, 200)
    out, _ = process.communicate(timeout=120)
    if process.returncode != 0:
        return None
    reply = json.loads(out)
    return reply if reply["usage"]["accepted_tokens"] > 20 else None


def settle(group):
    """A fault is noticed by an idle process within a second or two."""
    deadline = time.monotonic() + 3
    before = pids(group)
    while time.monotonic() < deadline and pids(group) == before:
        time.sleep(0.05)


def run_case(group, options, die, streaming, plain):
    before = pids(group)
    pauses = []
    if streaming:
        start = generated(group)
        streams = [group.generate(PROMPT, 3, len(plain)) for _ in range(STREAMS)]
        wait_until(lambda: generated(group) > start + BEFORE, 60, "tokens")
    began = time.monotonic()
    try:
        die(group, options)
        if streaming:
            assert all(s.poll() is None for s in streams), "a stream ended before anything died"
    finally:
        replies = [finished(s) for s in streams] if streaming else []
    for reply in replies:
        assert reply["token_ids"] == plain, "a stream has other tokens"
        pauses.append(reply["timings"]["longest_message_interval_seconds"])
    if not streaming:
        settle(group)
    healthy(group, before, MUST_CHANGE.get(die), plain)
    after = pids(group)
    return {"restarted": " ".join(sorted(n for n in after if after[n] != before.get(n))) or "none",
            "pause_s": round(max(pauses), 2) if pauses else None,
            "whole_after_s": round(time.monotonic() - began, 2)}


def run_mode(options, mps, card):
    """All cases; a line each. The number of those that did not pass."""
    failed = 0
    memory = gpu_memory()
    with tempfile.TemporaryDirectory() as folder:
        group = serve.Group(options.build / "bin", pathlib.Path(folder), options.backend, FORMATS["bf16"], mps)
        with group:
            plain = group.reply(PROMPT, 0, TOKENS[options.backend])["token_ids"]
            for name, die, streaming in CASES:
                result, numbers = "pass", {}
                try:
                    numbers = run_case(group, options, die, streaming, plain)
                except Skipped as reason:
                    result, numbers = "skipped", {"why": str(reason)}
                except (AssertionError, OSError, subprocess.SubprocessError) as error:
                    result, numbers = "FAIL", {"error": str(error)}
                    failed += 1
                print(f"{'MPS' if mps else 'no MPS':7} {name:24} {result:8} "
                      + ", ".join(f"{k} {v}" for k, v in numbers.items() if v is not None), flush=True)
                serve.record(options, card, "bf16", name, result, numbers, script="deaths")
                if result == "FAIL" and group.up.poll() is not None:
                    break
        if group.code != 0:
            failed += 1
            print(f"the group ended with {group.code}")
        left = wait_memory(memory)
        if left > memory + MEMORY_SLACK_MIB:
            failed += 1
            print(f"{left - memory} MiB of GPU memory are still in use")
        log = group.log_path.read_text(errors="replace")
        lost = len(re.findall(r"the GPU is lost", log))
        print(f"{'MPS' if mps else 'no MPS':7} {'':24} processes that lost the GPU: {lost}; "
              f"GPU memory {memory} MiB before, {left} after")
        if options.keep_logs:
            shutil.copy(group.log_path, options.keep_logs / f"deaths-{'mps' if mps else 'no-mps'}.log")
        elif failed:
            print(log[-6000:])
    return failed


def wait_memory(before):
    """What is in use once the driver has cleaned up."""
    deadline = time.monotonic() + 10
    while gpu_memory() > before + MEMORY_SLACK_MIB and time.monotonic() < deadline:
        time.sleep(0.2)
    return gpu_memory()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=serve.ROOT / "build", help="where bin/ lies")
    parser.add_argument("--backend", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--results", type=pathlib.Path, help="folder for <card>.jsonl")
    parser.add_argument("--keep-logs", type=pathlib.Path, help="folder for the logs of the groups")
    parser.add_argument("modes", nargs="*", default=["no-mps", "mps"], help="no-mps, mps (both)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    card = serve.describe_card()
    print(f"card: {card['card']}, driver: {card['driver']}, commit: {card['commit']}", flush=True)
    failed = 0
    for mode in options.modes:
        options.mps = mode == "mps"
        if options.mps and shutil.which("nvidia-cuda-mps-control") is None:
            print("MPS     skipped: nvidia-cuda-mps-control is not on the PATH")
            continue
        failed += run_mode(options, options.mps, card)
    print(f"{failed} did not pass" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
