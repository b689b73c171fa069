"""`tandem up --mps` with a stand-in for the daemon's program, since there is no GPU here."""
import json
import os
import signal
import stat
import subprocess

import pytest
from processes import MODEL, wait_until
from timing import scaled

# Does what the real one does to the outside: -d starts a daemon that writes its process id, standard input controls it.
STAND_IN = """#!/usr/bin/env bash
pid_file=$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
if [[ ${1-} == -d ]]; then
  [[ -z ${REFUSES-} ]] || { echo "MPS is not for you"; exit 1; }
  [[ -d $CUDA_MPS_LOG_DIRECTORY && -z ${CUDA_VISIBLE_DEVICES-} ]] || exit 1
  echo "daemon $CUDA_MPS_PIPE_DIRECTORY" >>"$SAID"
  setsid sleep 1000 <&- >&- 2>&- &
  echo $! >"$pid_file"
  exit
fi
while read -r line; do
  echo "$line" >>"$SAID"
  case $line in
    quit) kill "$(<"$pid_file")" ;;
    get_server_list) echo 4000000 ;;
  esac
done
"""


@pytest.fixture
def up(binaries, tmp_path):
    """A function that starts `tandem up` with the stand-in on the PATH; ends what it has started."""
    program = tmp_path / "path" / "nvidia-cuda-mps-control"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    started = []

    def start(*flags, **environment):
        env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "SAID": str(tmp_path / "said"), **environment}
        process = subprocess.Popen([
            str(binaries / "tandem"), "up", f"--model={MODEL}", "--backend=cpu", "--threads=1", "--address=127.0.0.1:0",
            f"--ready-file={tmp_path / 'ready'}", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        started.append(process)
        wait_until(lambda: (tmp_path / "ready").exists() or process.poll() is not None, 60, "tandem up")
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ready(tmp_path):
    return json.loads((tmp_path / "ready").read_text())


def said(tmp_path):
    return (tmp_path / "said").read_text().splitlines() if (tmp_path / "said").exists() else []


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def environment(pid):
    return dict(item.split("=", 1) for item in open(f"/proc/{pid}/environ").read().split("\0") if "=" in item)


def end(process):
    process.send_signal(signal.SIGTERM)
    out = process.communicate(timeout=scaled(60))[0].decode()
    assert process.returncode == 0, out
    return out


def test_on_starts_a_daemon_first_and_ends_it_last(up, tmp_path):
    process = up("--mps=on", CUDA_VISIBLE_DEVICES="0")
    facts = ready(tmp_path)
    assert facts["mps"] and alive(facts["pids"]["mps"])
    pipes = environment(facts["pids"]["verifier"])["CUDA_MPS_PIPE_DIRECTORY"]
    assert said(tmp_path)[0] == f"daemon {pipes}"
    assert environment(facts["pids"]["drafter"])["CUDA_MPS_PIPE_DIRECTORY"] == pipes
    assert environment(facts["pids"]["drafter"])["CUDA_VISIBLE_DEVICES"] == "0"
    out = end(process)
    assert said(tmp_path)[-1] == "quit" and not alive(facts["pids"]["mps"])
    assert "drafter  | ended" in out and not os.path.exists(pipes)


def test_its_death_starts_daemon_verifier_and_drafter_anew(up, tmp_path):
    process = up("--mps=on")
    before = ready(tmp_path)["pids"]
    os.kill(before["mps"], signal.SIGKILL)

    def renewed():
        now = ready(tmp_path)["pids"]
        return all(now[name] != before[name] for name in ("mps", "verifier", "drafter"))
    wait_until(renewed, 60, "a new daemon, verifier and drafter")
    after = ready(tmp_path)["pids"]
    assert after["router"] == before["router"] and alive(after["mps"])
    folders = [line for line in said(tmp_path) if line.startswith("daemon ")]
    assert len(folders) == 2 and folders[0] != folders[1]
    assert folders[1] == "daemon " + environment(after["verifier"])["CUDA_MPS_PIPE_DIRECTORY"]
    end(process)
    assert not alive(after["mps"])


def test_the_death_of_the_verifier_ends_the_drafter(up, tmp_path):
    process = up("--mps=on")
    before = ready(tmp_path)["pids"]
    os.kill(before["verifier"], signal.SIGKILL)
    wait_until(lambda: all(ready(tmp_path)["pids"][n] != before[n] for n in ("verifier", "drafter")), 60, "both again")
    assert ready(tmp_path)["pids"]["mps"] == before["mps"]
    end(process)


def test_a_drafter_that_hangs_is_taken_off_the_gpu_before_it_is_killed(up, tmp_path):
    process = up("--mps=on")
    before = ready(tmp_path)["pids"]
    os.kill(before["drafter"], signal.SIGSTOP)
    os.kill(before["verifier"], signal.SIGKILL)
    wait_until(lambda: f"terminate_client 4000000 {before['drafter']}" in said(tmp_path), 30, "terminate_client")
    wait_until(lambda: ready(tmp_path)["pids"]["drafter"] != before["drafter"], 60, "a new drafter")
    assert not alive(before["drafter"])
    end(process)


def test_a_daemon_that_cannot_start_ends_up_where_it_was_asked_for(up, tmp_path):
    process = up("--mps=on", REFUSES="1")
    out = process.communicate(timeout=scaled(60))[0].decode()
    assert process.returncode == 1 and "--mps=on" in out and "MPS is not for you" in out
    assert out.count("\n") == 1, out


@pytest.mark.parametrize("flags", [["--mps=off"], ["--mps=auto"]])
def test_no_daemon_where_there_is_no_use_for_one(up, tmp_path, flags):
    process = up(*flags)
    assert not ready(tmp_path)["mps"] and said(tmp_path) == []
    end(process)
    assert said(tmp_path) == []


def test_off_leaves_a_daemon_of_the_environment_alone(up, tmp_path):
    process = up("--mps=off", CUDA_MPS_PIPE_DIRECTORY="/somewhere")
    pipes = environment(ready(tmp_path)["pids"]["verifier"])["CUDA_MPS_PIPE_DIRECTORY"]
    assert pipes != "/somewhere" and not os.path.exists(pipes)
    end(process)
