"""The metrics pages agree with what clients were told."""
import pytest
from processes import wait_until

pytestmark = pytest.mark.sanitize


def total(metrics, name):
    """Sum over all label values of a counter."""
    return sum(v for k, v in metrics.items() if k == name or k.startswith(name + "{"))


def test_counters_equal_the_usage_of_all_replies(new_group, golden):
    group = new_group(verifier_flags=["--draft-schedule=0:8"])
    group.wait_for_drafter()
    usages, finished = [], 0
    drafted, accepted = [0] * 8, [0] * 8
    for c, case in enumerate(golden["cases"]):
        for drafts, sampling in ((3, dict(temperature=0)), (0, dict(temperature=1, seed=c)), (8, dict(temperature=0.7, seed=c))):
            reply = group.client.generate(ids=case["ids"], max_drafts=drafts, sampling=sampling,
                                          stopping=dict(max_tokens=20 + c, ignore_eos=True))
            finished += 1
            usages.append(reply.usage)
            assert reply.usage.generated_tokens == len(reply.token_ids) == 20 + c
            assert sum(t for t, _, _ in reply.rounds) == len(reply.token_ids)
            for depth in range(len(reply.usage.drafted_by_depth)):
                drafted[depth] += reply.usage.drafted_by_depth[depth]
                accepted[depth] += reply.usage.accepted_by_depth[depth]
    wait_until(lambda: group.metrics()["tandem_state_slots_used"] == 0, 10, "the last slot free")
    m = group.metrics()
    assert total(m, "tandem_generated_tokens_total") == sum(u.generated_tokens for u in usages)
    assert total(m, "tandem_retained_tokens_total") == sum(u.retained_tokens for u in usages)
    for depth in range(8):
        assert m[f'tandem_drafted_tokens_total{{depth="{depth + 1}"}}'] == drafted[depth], depth
        assert m[f'tandem_accepted_tokens_total{{depth="{depth + 1}"}}'] == accepted[depth], depth
    assert all(d >= a for d, a in zip(drafted, accepted)) and drafted == sorted(drafted, reverse=True)
    assert sum(u.drafted_tokens for u in usages) == sum(drafted)
    assert total(m, "tandem_draft_rounds_total") == sum(u.draft_rounds for u in usages)
    rounds = total(m, "tandem_draft_rounds_total") + total(m, "tandem_undrafted_rounds_total")
    assert total(m, "tandem_generated_tokens_total") + total(m, "tandem_trimmed_tokens_total") == \
        total(m, "tandem_accepted_tokens_total") + rounds
    assert m["tandem_queue_depth"] == 0
    computed = m['tandem_prompt_tokens_total{source="computed"}']
    assert computed == sum(u.prompt_tokens for u in usages)

    outcome = 'tandem_requests_total{method="Generate",outcome="OK"}'
    wait_until(lambda: group.router_metrics().get(outcome, 0) >= finished, 10, "the last request counted")
    r = group.router_metrics()
    assert r[outcome] == finished
    assert r['tandem_generations_total{finish_reason="MAX_TOKENS"}'] == finished
    assert r["tandem_time_to_first_token_seconds_count"] == finished
    assert r["tandem_token_latency_seconds_count"] <= total(m, "tandem_generated_tokens_total")
    assert any("tandem_token_latency_seconds_bucket" in k and 'le="0.0005"' in k for k in r)
    d = _drafter(group)
    assert d["tandem_drafter_attached"] == 1 and d["tandem_drafter_rounds_total"] > 0


def _drafter(group):
    from processes import scrape
    return scrape(group.drafter_info[0]["metrics_address"])


def test_every_sample_carries_the_model(group):
    import urllib.request
    from prometheus_client.parser import text_string_to_metric_families
    for info in (group.router_info, group.verifier_info[0], group.drafter_info[0]):
        text = urllib.request.urlopen(f"http://{info['metrics_address']}/metrics", timeout=10).read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                # The server of the page counts itself; the serving state also tells of the time before the model was known.
                if family.name.startswith("tandem_") and family.name != "tandem_serving_state":
                    assert sample.labels.get("model") == "rwkv7-demo-9m", (info, sample)


def test_errors_are_counted_by_code(group):
    import grpc
    before = group.router_metrics().get('tandem_requests_total{method="Generate",outcome="INVALID_ARGUMENT"}', 0)
    with pytest.raises(grpc.RpcError):
        group.client.generate(prompt="x", sampling=dict(top_p=2))
    wait_until(lambda: group.router_metrics().get(
        'tandem_requests_total{method="Generate",outcome="INVALID_ARGUMENT"}', 0) == before + 1, 5, "counted")


def test_mode_and_identity_are_shown(group):
    m = group.metrics()
    modes = [k for k, v in m.items() if k.startswith("tandem_handoff_info{") and v == 1]
    assert len(modes) == 1 and 'mode="host"' in modes[0]
    assert m["tandem_handoff_seconds_count"] > 0
    for name in ("tandem_build_info", "tandem_model_info", "tandem_sidecar_info"):
        assert any(k.startswith(name + "{") and v == 1 for k, v in m.items()), name
    assert m['tandem_serving_state{state="serving"}'] == 1
