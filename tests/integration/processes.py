"""Starts, kills and restarts the three processes."""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time
import urllib.request

from client import Client
from timing import scaled

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "deploy" / "demo-model"
START_SECONDS = 60
# stopping of a stream that is still running when the test is done with it, on any machine.
ENDLESS = dict(max_tokens=1_000_000, ignore_eos=True)


def free_port():
    """A free port for a server that must come back on the same one: below those that outgoing connections take."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(condition, seconds, what):
    """Polls until condition() is true; fails with `what` after `seconds`, more of them in a sanitizer build."""
    end = time.monotonic() + scaled(seconds)
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {scaled(seconds)} s: {what() if callable(what) else what}")


class Process:
    """One binary with its log file and ready file."""

    def __init__(self, binary, flags, folder, name):
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.ready_path = folder / f"{name}.ready"
        self.ready_path.unlink(missing_ok=True)
        self.log = open(self.log_path, "ab")
        self.popen = subprocess.Popen([str(binary), *flags, f"--ready-file={self.ready_path}"], stdout=self.log,
                                      stderr=self.log, stdin=subprocess.DEVNULL)

    def wait_ready(self):
        """The addresses that the process wrote when it was ready."""
        def ready():
            assert self.popen.poll() is None, f"{self.name} ended with {self.popen.returncode}:\n{self.tail()}"
            return self.ready_path.exists()
        wait_until(ready, START_SECONDS, lambda: f"{self.name} ready:\n{self.tail()}")
        return json.loads(self.ready_path.read_text())

    def tail(self):
        return "".join(self.log_path.read_text(errors="replace").splitlines(keepends=True)[-40:])

    def kill(self):
        """SIGKILL to a process that lives; one that has ended by itself would have hidden a crash."""
        assert self.popen.poll() is None, f"{self.name} had ended with {self.popen.returncode}:\n{self.tail()}"
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()
        self.log.close()

    def terminate(self, seconds=60):
        """SIGTERM, then the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(scaled(seconds))
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} did not end within {seconds} s of SIGTERM:\n{self.tail()}")
        self.log.close()
        return self.popen.returncode


class Group:
    """One router over one or more verifiers, each with a drafter unless drafter=False."""

    def __init__(self, binaries, folder, verifiers=1, drafter=True, model=MODEL, verifier_flags=(), drafter_flags=(),
                 router_flags=()):
        self.binaries, self.folder, self.model = binaries, folder, model
        self.with_drafter = drafter
        self.verifier_flags, self.drafter_flags, self.router_flags = verifier_flags, drafter_flags, router_flags
        self.ports = [free_port() for _ in range(verifiers)]
        self.verifiers = [None] * verifiers
        self.drafters = [None] * verifiers
        self.verifier_info = [None] * verifiers
        self.drafter_info = [None] * verifiers
        self.router = self.router_info = self.client = None
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()

    def socket_path(self, i):
        return self.folder / f"draft{i}.sock"

    def start(self):
        for i in range(len(self.verifiers)):
            self.start_verifier(i)
            if self.with_drafter:
                self.start_drafter(i)
        self.start_router()
        return self

    def start_verifier(self, i=0, wait=True):
        self.verifiers[i] = Process(self.binaries / "tandem-verifier", [
            f"--model={self.model}", f"--address=127.0.0.1:{self.ports[i]}", "--metrics-address=127.0.0.1:0",
            f"--draft-socket={self.socket_path(i)}", "--threads=1", f"--max-tokens-limit={ENDLESS['max_tokens']}",
            *self.verifier_flags], self.folder, f"verifier{i}")
        if wait:
            self.verifier_info[i] = self.verifiers[i].wait_ready()

    def start_drafter(self, i=0, wait=True):
        self.drafters[i] = Process(self.binaries / "tandem-drafter", [
            f"--socket={self.socket_path(i)}", f"--model={self.model}", "--metrics-address=127.0.0.1:0", "--threads=1",
            *self.drafter_flags], self.folder, f"drafter{i}")
        if wait:
            self.drafter_info[i] = self.drafters[i].wait_ready()

    def start_router(self):
        self.router = Process(self.binaries / "tandem-router", [
            "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
            "--verifiers=" + ",".join(f"127.0.0.1:{p}" for p in self.ports), *self.router_flags], self.folder, "router")
        self.router_info = self.router.wait_ready()
        self.client = Client(self.router_info["address"])

    def wait_for_drafter(self, i=0, attached=True, seconds=30):
        wait_until(lambda: self.metrics(i).get("tandem_drafter_attached") == (1 if attached else 0), seconds,
                   lambda: f"drafter attached = {attached}:\n{self.verifiers[i].tail()}")

    def metrics(self, i=0):
        return scrape(self.verifier_info[i]["metrics_address"])

    def router_metrics(self):
        return scrape(self.router_info["metrics_address"])

    def stop(self):
        """Ends everything; every process that no test has ended must be alive and end cleanly."""
        if self.client:
            self.client.close()
        codes = [(p.name, p.terminate(), p) for p in [self.router, *self.verifiers, *self.drafters]
                 if p is not None and not p.log.closed]
        self.router = None
        self.verifiers = [None] * len(self.verifiers)
        self.drafters = [None] * len(self.drafters)
        bad = [f"{name} exited with {code}:\n{p.tail()}" for name, code, p in codes if code != 0]
        assert not bad, "\n".join(bad)


def scrape(address):
    """The metrics page as {name or name{labels without model}: value}; parsed by the prometheus library."""
    from prometheus_client.parser import text_string_to_metric_families
    text = urllib.request.urlopen(f"http://{address}/metrics", timeout=scaled(10)).read().decode()
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k != "model"}
            inner = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
            values[sample.name + (f"{{{inner}}}" if inner else "")] = sample.value
    return values


def file_descriptors(process):
    return len(os.listdir(f"/proc/{process.popen.pid}/fd"))
