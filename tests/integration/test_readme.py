"""The README's Python and grpcurl examples, run as they are printed (only the address is the test's own)."""
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from processes import ROOT
from timing import scaled

README = (ROOT / "README.md").read_text()
DEFAULT = "127.0.0.1:50051"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_stubs_are_made_as_printed(tmp_path):
    [line] = [l for block in blocks("sh") for l in block.splitlines() if " -m grpc_tools.protoc " in l]
    words = shlex.split(line.replace("build/python", str(tmp_path)))
    assert words[0] == ".venv/bin/python"
    subprocess.run([sys.executable, *words[1:]], check=True, cwd=ROOT)
    code = "from tandem.v1 import generation_pb2, generation_pb2_grpc"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})


def test_commands_and_flags_exist(binaries):
    """Every line that starts tandem parses, and every flag of the tables is one that its process knows."""
    for line in (l for block in blocks("sh") for l in block.splitlines() if l.startswith("build/bin/tandem ")):
        words = shlex.split(line)
        out = subprocess.run([str(binaries / "tandem"), *words[1:], "--help"], capture_output=True, text=True)
        assert out.returncode == 0, out.stderr
    for name, table in re.findall(r"^`(tandem-\w+)`\n\n((?:\|.*\n)+)", README, re.MULTILINE):
        known = subprocess.run([str(binaries / name), "--help"], capture_output=True, text=True).stdout
        printed = re.findall(r"`--([\w-]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()))
        assert printed
        assert [f for f in printed if f"--{f.replace('-', '_')} " not in known] == [], name
        shown = re.findall(r"^\s*--(\w+) \(", known, re.MULTILINE)
        assert {f for f in shown if f != "ready_file"} <= {f.replace("-", "_") for f in printed}, name


def test_five_lines_of_python(group):
    [code] = blocks("python")
    assert DEFAULT in code
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code.replace(DEFAULT, group.router_info["address"]), "README.md", "exec"), {})
    assert len(out.getvalue()) > 20


def test_grpcurl_call(group, golden):
    """The call with nothing but what grpcurl has: its arguments and the server's reflection."""
    from google.protobuf import json_format, message_factory
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
    [line] = [l for block in blocks("sh") for l in block.splitlines() if l.startswith("grpcurl ")]
    words = shlex.split(line)
    assert words[1:3] == ["-plaintext", "-d"] and words[4] == DEFAULT
    service, method = words[5].rsplit("/", 1)
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(group.client.channel))
    descriptor = pool.FindServiceByName(service).FindMethodByName(method)
    request = json_format.ParseDict(json.loads(words[3]), message_factory.GetMessageClass(descriptor.input_type)())
    response_class = message_factory.GetMessageClass(descriptor.output_type)
    assert descriptor.server_streaming
    call = group.client.channel.unary_stream(f"/{service}/{method}", request_serializer=lambda m: m.SerializeToString(),
                                             response_deserializer=response_class.FromString)
    events = [json_format.MessageToDict(r) for r in call(request, timeout=scaled(60))]
    assert "started" in events[0] and "finished" in events[-1]
    assert "".join(e.get("delta", {}).get("text", "") for e in events)


@pytest.mark.parametrize("name", ["tandem_drafted_tokens_total", "tandem_accepted_tokens_total", "tandem_draft_rounds_total",
                                  "tandem_undrafted_rounds_total", "tandem_drafter_attached", "tandem_handoff_info",
                                  "tandem_state_slots_used", "tandem_step_phase_seconds_count"])
def test_named_metrics_exist(group, name):
    assert name.removesuffix("_count") in README
    assert any(k.split("{")[0] == name for k in group.metrics())


def test_named_paths_exist():
    for path in set(re.findall(r"`((?:proto|kernels|common|services|deploy|tests)/[\w./-]+)`", README)):
        assert (ROOT / path).exists(), path
