"""The README's Python and grpcurl examples, run as they are printed (only the address is the test's own)."""
import contextlib
import io
import json
import re
import shlex

import pytest
from processes import ROOT
from timing import scaled

README = (ROOT / "README.md").read_text()
DEFAULT = "127.0.0.1:50051"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


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
