"""Rounded weights: the same promises as with bf16, and told truthfully."""
import shutil
import subprocess
import sys

import pytest
from processes import MODEL, ROOT
from tandem.v1 import generation_pb2

GREEDY = dict(sampling=dict(temperature=0), stopping=dict(max_tokens=64, ignore_eos=True))


@pytest.mark.parametrize("weights,head,activations", [
    ("fp8", "bf16", "exact"), ("fp8", "fp8", "exact"), ("fp8", "bf16", "fp8"), ("int8", "int8", "exact"),
    ("int6", "bf16", "exact")])
def test_drafts_change_nothing(new_group, golden, weights, head, activations):
    draft = "fp8" if head == "fp8" else "bf16"
    group = new_group(verifier_flags=["--draft-schedule=0:8", f"--weights={weights}", f"--head-weights={head}",
                                      f"--activations={activations}"],
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
    assert said.weight_format == (weights + ("" if activations == "exact" else f", activations {activations}")
                                  + ("" if head == "bf16" else f", head {head}"))
    assert said.backend == "cpu"
    assert any(name.startswith("tandem_model_info{") and f'format="{said.weight_format}"' in name
               for name in group.metrics())


def test_a_quantised_file_is_served_as_it_is(new_group, golden, binaries, tmp_path):
    """Rounded by an independent writer as --weights=fp8 rounds, so every token is the same."""
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(MODEL / "vocab.txt", folder)
    shutil.copytree(MODEL / "mtp", folder / "mtp")
    name = next(MODEL.glob("*.pth")).name
    subprocess.run([sys.executable, ROOT / "tests/data/write_quantised_pth.py", MODEL / name, folder / name], check=True)
    flags = ["--draft-schedule=0:8"]
    rounded = new_group(verifier_flags=[*flags, "--weights=fp8"], drafter=False)
    stored = new_group(verifier_flags=flags, model=folder)
    stored.wait_for_drafter()
    for case in golden["cases"]:
        expected = rounded.client.tokens(ids=case["ids"], max_drafts=0, **GREEDY)
        assert stored.client.tokens(ids=case["ids"], max_drafts=3, **GREEDY) == expected, case["task"]
    said = stored.client.generation.GetModel(generation_pb2.GetModelRequest())
    assert said.weight_format == "fp8"
    assert "matrices of fp8" in stored.verifiers[0].log_path.read_text()

    def refusal(flag):
        return subprocess.run([binaries / "tandem-verifier", f"--model={folder}", "--backend=cpu", flag],
                              capture_output=True, text=True, timeout=60)
    other = refusal("--weights=int8")
    assert other.returncode == 2 and "stored as fp8, which --weights=int8 does not change" in other.stderr
    report = subprocess.run([binaries / "tandem", "inspect", folder], capture_output=True, text=True, check=True).stdout
    assert "fp8" in report


@pytest.mark.parametrize("model", [MODEL, "synthetic:tiny"])
def test_rounded_activations_need_matrices_to_go_with(binaries, model):
    refused = subprocess.run([binaries / "tandem-verifier", f"--model={model}", "--backend=cpu", "--weights=int8",
                              "--activations=fp8"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "--activations=fp8 needs matrices in fp8: --weights=fp8" in refused.stderr


def test_synthetic_weights_name_what_is_rounded(new_group):
    group = new_group(model="synthetic:tiny", drafter=False,
                      verifier_flags=["--weights=fp8", "--activations=fp8", "--head-weights=int8"])
    said = group.client.generation.GetModel(generation_pb2.GetModelRequest())
    assert said.weight_format == "fp8, activations fp8, head int8"
