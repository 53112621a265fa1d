"""The companion program: its published figures, cases worked by hand, and a naive re-enactment."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.errors import InputError
from brtheory.routers.bf_io import BalanceFuture
from brtheory.routers.params import BalanceFutureParams
from brtheory.simulation.companion import (
    STEP_BASE_S,
    STEP_S_PER_TOKEN,
    CompanionResult,
    run_companion,
)

POLICIES = ("least-tokens", "round-robin", "bf-io")
requests_lists = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 8)), min_size=1, max_size=40)


def seconds(steps, sum_peak):
    return STEP_BASE_S * steps + STEP_S_PER_TOKEN * sum_peak


def run(requests, **options):
    prompts, outputs = zip(*requests, strict=True)
    return run_companion(prompts, outputs, **options)


def naive(requests, *, policy, replicas, slots):
    """The program once more, from the issue's words: requests as lists, loads summed afresh."""
    waiting = [[prompt, output] for prompt, output in requests]
    running = [[] for _ in range(replicas)]
    peaks, active, imbalances, last_admission = [], [], [], 0

    def load(replica):
        return sum(weight for weight, _ in running[replica])

    while True:
        pointer, seen = 0, min(4 * replicas, len(waiting))
        if policy == "bf-io":
            for position, replica in future_choices(waiting, running, seen=seen, slots=slots):
                running[replica].append(waiting[position])
                waiting[position] = None
                last_admission = len(peaks)
            waiting = [request for request in waiting if request is not None]
            seen = 0
        for _ in range(seen):
            free = [replica for replica in range(replicas) if len(running[replica]) < slots]
            if not free:
                break
            if policy == "least-tokens":
                chosen = min(free, key=lambda replica: (load(replica), replica))
            else:
                while pointer not in free:
                    pointer = (pointer + 1) % replicas
                chosen, pointer = pointer, (pointer + 1) % replicas
            running[chosen].append(waiting.pop(0))
            last_admission = len(peaks)
        if not any(running):
            break
        peaks.append(max(map(load, range(replicas))))
        active.append(sum(map(len, running)))
        running = [[[w + 1, left - 1] for w, left in requests] for requests in running]
        running = [[request for request in requests if request[1] > 0] for requests in running]
        loads = [load(replica) for replica in range(replicas)]
        imbalances.append(replicas * max(loads) - sum(loads))
    k = last_admission
    return CompanionResult(
        makespan_s=seconds(len(peaks), sum(peaks)),
        imbalance_mean_tokens=sum(imbalances[:k]) / k if k else None,
        throughput_tokens_per_s=sum(active[:k]) / seconds(k, sum(peaks[:k])) if k else None,
        steps=len(peaks),
        steps_before_last_admission=k,
    )


def future_choices(waiting, running, *, seen, slots):
    """What ``bf-io`` decides on loads that only completions change, true lengths known."""
    left = [request[1] for requests in [waiting, *running] for request in requests]
    horizon = min(72, max(left, default=1))
    rows = [
        [sum(weight for weight, rest in requests if rest > h) for h in range(horizon + 1)]
        for requests in running
    ]
    state = TickState(
        loads=rows,
        free_slots=[slots - len(requests) for requests in running],
        pool=[Request(i, waiting[i][0]) for i in range(seen)],
    )
    admissions = BalanceFuture(BalanceFutureParams(horizon=horizon)).tick(state)
    return [(admission.id, admission.replica) for admission in admissions]


@given(
    requests=requests_lists,
    policy=st.sampled_from(POLICIES),
    replicas=st.integers(1, 4),
    slots=st.integers(1, 5),
)
@settings(max_examples=150, deadline=None)
def test_the_program_equals_a_naive_re_enactment(requests, policy, replicas, slots):
    options = {"policy": policy, "replicas": replicas, "slots": slots}
    assert run(requests, **options) == naive(requests, **options)


@given(requests=requests_lists, policy=st.sampled_from(POLICIES), slots=st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_a_single_replica_works_off_exactly_the_work_there_is(requests, policy, slots):
    # With G = 1 the peaks are the loads, which sum to W = sum_i (o s + o (o - 1)/2) (T17).
    work = sum(output * prompt + output * (output - 1) // 2 for prompt, output in requests)
    result = run(requests, policy=policy, replicas=1, slots=slots)
    assert result.makespan_s == pytest.approx(seconds(result.steps, work), rel=1e-12)
    assert result.imbalance_mean_tokens in (0, None)


@given(requests=requests_lists, policy=st.sampled_from(POLICIES), replicas=st.integers(2, 4))
@settings(max_examples=50, deadline=None)
def test_the_placement_changes_the_clock_but_never_the_steps(requests, policy, replicas):
    # Admission in file order while a slot is free does not depend on which replica is chosen.
    in_order = ("least-tokens", "round-robin")
    results = [run(requests, policy=name, replicas=replicas, slots=2) for name in in_order]
    assert results[0].steps == results[1].steps
    assert results[0].steps_before_last_admission == results[1].steps_before_last_admission


def test_one_slot_serves_one_request_after_the_other():
    # Loads before growth 10, 11 (first request), 5 (second): K = 2 steps before its admission.
    result = run([(10, 2), (5, 1)], policy="least-tokens", replicas=1, slots=1)
    assert result == CompanionResult(
        makespan_s=seconds(3, 26),
        imbalance_mean_tokens=0.0,
        throughput_tokens_per_s=2 / seconds(2, 21),
        steps=3,
        steps_before_last_admission=2,
    )


def test_least_tokens_and_round_robin_place_the_third_request_differently():
    requests = [(10, 2), (1, 1), (2, 1), (3, 1), (4, 1)]
    # Least tokens: 10 | 1, then 10 | 3 (full), then 13 | 3. Step 1 at peak 13, 4 active. Growth
    # and completions leave 11 | 0: I = 2 * 11 - 11. Then 11 | 4: step 2 at peak 11.
    least = run(requests, policy="least-tokens", replicas=2, slots=2)
    assert least == CompanionResult(seconds(2, 24), 11.0, 4 / seconds(1, 13), 2, 1)
    # Round-robin: 12 | 4, peak 12, leaving 11 | 0; the pointer is back at 0: 15 | 0, peak 15.
    turns = run(requests, policy="round-robin", replicas=2, slots=2)
    assert turns == CompanionResult(seconds(2, 27), 11.0, 4 / seconds(1, 12), 2, 1)


def test_a_tick_sees_four_requests_a_replica_and_no_more():
    # Nine requests, free slots for all: eight enter at the first tick, the ninth after a step.
    # Step 1 at 4 | 4, all eight leave, I = 0; step 2 at 1 | 0.
    result = run([(1, 1)] * 9, policy="least-tokens", replicas=2, slots=100)
    assert result == CompanionResult(seconds(2, 5), 0.0, 8 / seconds(1, 4), 2, 1)


@pytest.mark.parametrize("policy", POLICIES)
def test_averages_are_unknown_when_the_first_tick_admits_everything(policy):
    result = run([(7, 3), (9, 1)], policy=policy, replicas=2, slots=2)
    # Peaks 9, 8, 9: the request of 7 grows on its own after the other has left.
    assert result == CompanionResult(seconds(3, 26), None, None, 3, 0)


def test_the_step_time_is_the_published_one():
    # 72 * 0.6 ms + 35 ms = 78.2 ms, over 16; 1.5 * 2 * 576 * 61 us / 2^20 = 0.1005 us a token.
    assert pytest.approx(4.8875e-3, rel=1e-12) == STEP_BASE_S
    assert pytest.approx(0.1005e-6, rel=1e-3) == STEP_S_PER_TOKEN


@pytest.mark.traces
@pytest.mark.parametrize(
    ("policy", "published"),
    [
        ("least-tokens", ("107.5948", "69934.5577", "39368.8602")),
        ("round-robin", ("107.6423", "69118.2975", "39397.7753")),
    ],
)
def test_the_published_figures_on_the_azure_conversations(traces_dir, policy, published):
    with (traces_dir / "AzureLLMInferenceTrace_conv.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    prompts, outputs = (
        np.array([int(row[name]) for row in rows]) for name in ("ContextTokens", "GeneratedTokens")
    )
    result = run_companion(prompts, outputs, policy=policy, replicas=8, slots=72)
    printed = (
        f"{result.makespan_s:.4f}",
        f"{result.imbalance_mean_tokens:.4f}",
        f"{result.throughput_tokens_per_s:.4f}",
    )
    assert printed == published
    assert (result.steps, result.steps_before_last_admission) == (7817, 6920)


@pytest.mark.parametrize(
    ("shape", "seed", "figures"),
    [
        ((4, 8), 1, (5.764531, 12249.548117, 814, 478)),
        ((3, 5), 2, (9.047525, 6398.633766, 1357, 1155)),
        ((8, 6), 3, (4.100358, 17720.802857, 596, 350)),
    ],
)
def test_bf_io_gives_the_figures_of_the_published_program(shape, seed, figures):
    # The program's own policy and loop, run outside this repository on the same drawn requests.
    rng = np.random.default_rng(seed)
    prompts = np.clip(rng.normal(3200, 2600, 160), 1, None).astype(np.int64)
    outputs = np.clip(rng.normal(120, 70, 160), 1, None).astype(np.int64)
    replicas, slots = shape
    result = run_companion(prompts, outputs, policy="bf-io", replicas=replicas, slots=slots)
    makespan_s, imbalance, steps, before_last = figures
    assert result.makespan_s == pytest.approx(makespan_s, abs=1e-6)
    assert result.imbalance_mean_tokens == pytest.approx(imbalance, abs=1e-6)
    assert (result.steps, result.steps_before_last_admission) == (steps, before_last)


def test_an_unknown_policy_is_named():
    with pytest.raises(
        InputError, match=r"^policy: expected one of least-tokens, round-robin, bf-io"
    ):
        run([(1, 1)], policy="jsq", replicas=1, slots=1)


@pytest.mark.parametrize("field", ["replicas", "slots"])
def test_counts_below_one_are_named(field):
    options = {"replicas": 2, "slots": 2, field: 0}
    with pytest.raises(InputError, match=rf"^{field}: expected an integer from 1"):
        run([(1, 1)], policy="round-robin", **options)
