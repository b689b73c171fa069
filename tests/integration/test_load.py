"""Many streams at once, with random cancels: everything returns to zero."""
import random
import threading

import grpc
from client import Reply, request
from processes import file_descriptors, wait_until

STREAMS = 1000


def resident_bytes(process):
    with open(f"/proc/{process.popen.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def storm(group, golden, seed):
    """STREAMS concurrent streams, about half of them cancelled; returns the outcomes."""
    rng = random.Random(seed)
    outcomes = {"finished": 0, "cancelled": 0, "refused": 0}
    lock = threading.Lock()
    threads = []

    def one(message, cancel_after):
        call = group.client.generation.Generate(message, timeout=300)
        reply = Reply()
        try:
            for response in call:
                reply.add(response)
                if cancel_after is not None and len(reply.token_ids) >= cancel_after:
                    call.cancel()
            outcome = "finished"
            assert reply.finished is not None, reply.failed
        except grpc.RpcError as error:
            outcome = {grpc.StatusCode.CANCELLED: "cancelled",
                       grpc.StatusCode.RESOURCE_EXHAUSTED: "refused"}[error.code()]
        with lock:
            outcomes[outcome] += 1

    for number in range(STREAMS):
        case = rng.choice(golden["cases"])
        message = request(ids=case["ids"][:rng.randint(1, 60)], max_drafts=rng.choice([0, 3, 8]),
                          sampling=dict(temperature=rng.choice([0, 1]), seed=number),
                          stopping=dict(max_tokens=rng.randint(1, 12), ignore_eos=True))
        threads.append(threading.Thread(target=one, args=(message, rng.choice([None, 0, 1, 3]))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(outcomes.values()) == STREAMS, outcomes
    return outcomes


def test_a_thousand_streams_leave_nothing_behind(new_group, golden):
    group = new_group(verifier_flags=["--queue-limit=2000", "--draft-schedule=4:3,16:2,0:1"])
    group.wait_for_drafter()
    storm(group, golden, 1)
    idle = [(resident_bytes(p), file_descriptors(p)) for p in (group.router, group.verifiers[0], group.drafters[0])]
    outcomes = storm(group, golden, 2)
    assert outcomes["finished"] > 200 and outcomes["cancelled"] > 100 and outcomes["refused"] == 0, outcomes

    def settled():
        m = group.metrics()
        return (m["tandem_state_slots_used"], m["tandem_queue_depth"], m["tandem_sessions"]) == (0, 0, 0) and \
            group.router_metrics()["tandem_active_streams"] == 0
    wait_until(settled, 20, "slots, queue, sessions and streams at zero")
    wait_until(lambda: all(file_descriptors(p) <= fds + 3 for p, (_, fds) in
                           zip((group.router, group.verifiers[0], group.drafters[0]), idle)), 20, "descriptors flat")
    for process, (memory, _) in zip((group.router, group.verifiers[0], group.drafters[0]), idle):
        assert resident_bytes(process) < memory * 1.15 + (8 << 20), process.name
    case = golden["cases"][0]
    assert group.client.tokens(ids=case["ids"], sampling=dict(temperature=0),
                               stopping=dict(max_tokens=20)) == case["greedy_96"][:20]


def test_long_prompts_do_not_stop_running_streams(new_group, golden):
    """While a long prompt is read, another stream's messages keep coming."""
    group = new_group(drafter=False, verifier_flags=["--max-prompt-tokens=40000"])
    prompt = (golden["cases"][0]["ids"] * 400)[:30000]
    long = threading.Thread(target=lambda: group.client.generate(ids=prompt, stopping=dict(max_tokens=1), timeout=300))
    seen = []

    def on_reply(reply):
        if len(reply.token_ids) == 50:
            long.start()
        if long.is_alive():
            seen.append(len(reply.token_ids))

    group.client.generate(ids=golden["cases"][1]["ids"], sampling=dict(temperature=0),
                          stopping=dict(max_tokens=400, ignore_eos=True), on_reply=on_reply, timeout=300)
    long.join()
    assert seen[-1] - seen[0] >= 20, "the running stream stood still during the prefill"
