"""Fixtures that start the real binaries on free loopback ports and talk to them with stubs made from proto/."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "deploy" / "demo-model"
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import timing


def pytest_addoption(parser):
    parser.addoption("--build-dir", default="build", help="build tree with bin/, relative to the project root")


def pytest_configure(config):
    """Generates the Python stubs once per build tree; gives a sanitizer build more time."""
    build = (ROOT / config.getoption("--build-dir")).resolve()
    sanitizers = re.search(r"^TANDEM_SANITIZE:STRING=(.+)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    config.sanitized = sanitizers is not None
    timing.factor = 8 if config.sanitized else 1
    stubs = build / "python"
    protos = sorted((ROOT / "proto").rglob("*.proto"))
    if not stubs.exists() or any(p.stat().st_mtime > stubs.stat().st_mtime for p in protos):
        stubs.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"--python_out={stubs}",
                        f"--grpc_python_out={stubs}", *(str(p) for p in protos if "tandem" in p.parts)], check=True)
        stubs.touch()
    sys.path.insert(0, str(stubs))
    config.tandem_bin = build / "bin"


@pytest.fixture(scope="session", autouse=True)
def sanitizer_reports(tmp_path_factory):
    """The folder where every process that a test starts, directly or not, leaves the report of a sanitizer."""
    folder = tmp_path_factory.mktemp("sanitizer")
    common = f"log_path={folder}/report:log_exe_name=1"
    os.environ["ASAN_OPTIONS"] = f"detect_leaks=1:detect_stack_use_after_return=1:{common}"
    os.environ["UBSAN_OPTIONS"] = f"print_stacktrace=1:halt_on_error=1:{common}"
    yield folder
    check_no_reports(folder)


@pytest.fixture(autouse=True)
def no_sanitizer_report(sanitizer_reports):
    """Fails the test during which a process reported something, even where the group outlived it."""
    yield
    check_no_reports(sanitizer_reports)


def check_no_reports(folder):
    reports = {path.name: path.read_text(errors="replace") for path in folder.iterdir()}
    for name in reports:
        (folder / name).unlink()
    assert not reports, "\n".join(f"{name}:\n{text}" for name, text in reports.items())


@pytest.fixture(scope="session")
def sanitized(request):
    """Whether the binaries are of a sanitizer build, where less of the same work is enough."""
    return request.config.sanitized


@pytest.fixture(scope="session")
def binaries(request):
    return request.config.tandem_bin


@pytest.fixture(scope="session")
def golden():
    return json.loads((MODEL / "golden" / "golden.json").read_text())


@pytest.fixture(scope="module")
def group(binaries, tmp_path_factory):
    """Router, verifier and drafter with drafts for any number of sequences; shared by a module's tests."""
    from processes import Group
    with Group(binaries, tmp_path_factory.mktemp("group"), verifier_flags=["--draft-schedule=0:8"]) as started:
        started.wait_for_drafter()
        yield started


@pytest.fixture
def new_group(binaries, tmp_path):
    """A function that starts a group of its own for one test."""
    from processes import Group
    started = []

    def start(**options):
        group = Group(binaries, tmp_path / f"group{len(started)}", **options)
        started.append(group)
        return group.start()

    yield start
    for group in started:
        group.stop()
