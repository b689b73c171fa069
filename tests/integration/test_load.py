"""Many streams at once, with random cancels: everything returns to zero."""
import itertools
import random
import threading

import grpc
from client import Reply, request
import pytest
from processes import ENDLESS, file_descriptors, wait_until
from timing import scaled, shorter

STREAMS = shorter(1000, 120)


def resident_bytes(process):
    with open(f"/proc/{process.popen.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def storm(group, golden, seed):
    """Concurrent streams, some short, the others cancelled by the client in mid-stream; every one ends as it should."""
    rng = random.Random(seed)
    outcomes = []
    lock = threading.Lock()
    threads = []

    def one(message, cancel_after):
        call = group.client.generation.Generate(message, timeout=scaled(300))
        reply = Reply()
        try:
            for response in call:
                reply.add(response)
                if cancel_after is not None and len(reply.token_ids) >= cancel_after:
                    call.cancel()
            outcome = "finished" if reply.finished is not None else str(reply.failed)
        except grpc.RpcError as error:
            outcome = error.code()
        with lock:
            outcomes.append((outcome, "finished" if cancel_after is None else grpc.StatusCode.CANCELLED))

    for number in range(STREAMS):
        case = rng.choice(golden["cases"])
        cancel_after = rng.choice([None, None, 0, 1, 3])
        stopping = dict(max_tokens=rng.randint(1, 12), ignore_eos=True) if cancel_after is None else ENDLESS
        message = request(ids=case["ids"][:rng.randint(1, 60)], max_drafts=rng.choice([0, 3, 8]),
                          sampling=dict(temperature=rng.choice([0, 1]), seed=number),
                          stopping=stopping)
        threads.append(threading.Thread(target=one, args=(message, cancel_after)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == STREAMS and all(got == expected for got, expected in outcomes), \
        [pair for pair in outcomes if pair[0] != pair[1]]


@pytest.mark.sanitize
def test_a_thousand_streams_leave_nothing_behind(new_group, golden, sanitized):
    group = new_group(verifier_flags=["--queue-limit=2000", "--draft-schedule=4:3,16:2,0:1"])
    group.wait_for_drafter()
    storm(group, golden, 1)
    idle = [(resident_bytes(p), file_descriptors(p)) for p in (group.router, group.verifiers[0], group.drafters[0])]
    storm(group, golden, 2)

    def settled():
        m = group.metrics()
        return (m["tandem_state_slots_used"], m["tandem_queue_depth"], m["tandem_sessions"]) == (0, 0, 0) and \
            group.router_metrics()["tandem_active_streams"] == 0
    wait_until(settled, 20, "slots, queue, sessions and streams at zero")
    wait_until(lambda: all(file_descriptors(p) <= fds + 3 for p, (_, fds) in
                           zip((group.router, group.verifiers[0], group.drafters[0]), idle)), 20, "descriptors flat")
    # A sanitizer holds freed memory back, and looks for leaks itself when the processes end.
    for process, (memory, _) in zip((group.router, group.verifiers[0], group.drafters[0]), [] if sanitized else idle):
        assert resident_bytes(process) < memory * 1.15 + (8 << 20), process.name
    case = golden["cases"][0]
    assert group.client.tokens(ids=case["ids"], sampling=dict(temperature=0),
                               stopping=dict(max_tokens=20)) == case["greedy_96"][:20]


def test_long_prompts_do_not_stop_running_streams(new_group, golden):
    """While a long prompt is read, chunk by chunk, every pass also brings the running stream a token."""
    chunk, prompt = 16, list(itertools.islice(itertools.cycle(golden["cases"][0]["ids"]), 12000))
    group = new_group(drafter=False, verifier_flags=[f"--prefill-chunk={chunk}"])
    with group.client.running(ids=golden["cases"][1]["ids"], stopping=ENDLESS):
        before = group.metrics()["tandem_generated_tokens_total"]
        group.client.generate(ids=prompt, stopping=dict(max_tokens=1), timeout=300)
        generated = group.metrics()["tandem_generated_tokens_total"] - before
    assert generated >= len(prompt) // chunk, "the running stream stood still during the prefill"
