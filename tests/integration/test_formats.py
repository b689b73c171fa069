"""Rounded weights: the same promises as with bf16, and told truthfully."""
import pytest
from tandem.v1 import generation_pb2

GREEDY = dict(sampling=dict(temperature=0), stopping=dict(max_tokens=64, ignore_eos=True))


@pytest.mark.parametrize("weights,head", [("fp8", "bf16"), ("fp8", "fp8"), ("int8", "int8"), ("int6", "bf16")])
def test_drafts_change_nothing(new_group, golden, weights, head):
    draft = "fp8" if head == "fp8" else "bf16"
    group = new_group(verifier_flags=["--draft-schedule=0:8", f"--weights={weights}", f"--head-weights={head}"],
                      drafter_flags=[f"--draft-weights={draft}"])
    group.wait_for_drafter()
    accepted = 0
    for case in golden["cases"]:
        plain = group.client.tokens(ids=case["ids"], max_drafts=0, **GREEDY)
        reply = group.client.generate(ids=case["ids"], max_drafts=3, **GREEDY)
        assert reply.token_ids == plain, case["task"]
        accepted += reply.usage.accepted_tokens
    assert accepted > 100, "hardly any draft was accepted, so nothing was tested"
    said = group.client.generation.GetModel(generation_pb2.GetModelRequest())
    assert said.weight_format == (weights if head == "bf16" else f"{weights}, head {head}")
    assert said.backend == "cpu"
    assert any(name.startswith("tandem_model_info{") and f'format="{said.weight_format}"' in name
               for name in group.metrics())
