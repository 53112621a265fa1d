"""The dynamic program: its kernels agree row by row, its limits hold, its beam brackets it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest
from solvers.budget import Budget, Options, Progress
from solvers.certify import certify
from solvers.facade import solve, solve_problem
from solvers.partition_search import PartitionSearch
from solvers.partitions import IDLE, NumpyKernel, States, empty_state
from solvers.partitions_compiled import CompiledKernel
from solvers.problem import FixedAdmissions
from solvers.result import Limit, Stop
from solvers.timeline import peak_bound, segment_bound, timeline, weights
from tests.exact.problems import fifo_steps, tiny_instance


def wide_problem(seed: int = 3, *, slots: int = 5, kv: bool = False) -> FixedAdmissions:
    """Sixty requests on two replicas, loaded but not full: branching, merging and filtering."""
    requests = 60
    instance = random_instance(
        np.random.default_rng(seed),
        requests=requests,
        replicas=2,
        slots=slots,
        longest_prompt=50,
        longest_output=12,
        latest_ready=requests // 2,
        kv_headroom=3.0 if kv else None,
    )
    return FixedAdmissions(instance, "imbalance", fifo_steps(instance))


moves = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-30, 60), st.integers(1, 9)), min_size=1, max_size=14
)


@settings(max_examples=120, deadline=None)
@given(moves=moves, groups=st.integers(1, 4), slots=st.integers(1, 3))
def test_the_compiled_kernel_equals_the_reference_row_by_row(moves, groups, slots) -> None:
    """Random moves: a lane is filled if free and emptied if not; then run and merge."""
    kernels = (NumpyKernel(), CompiledKernel())
    both = [empty_state(lanes=5, groups=groups) for _ in kernels]
    held: dict[int, int] = {}
    step = 40  # later than any intercept is negative, so loads stay >= 0
    for lane, intercept, length in moves:
        if lane not in held and len(held) == groups * slots:
            continue
        answers = []
        for k, kernel in enumerate(kernels):
            if lane in held:
                kernel.retire(both[k], lane=lane, intercept=held[lane])
                parents = None
            else:
                both[k], parents = kernel.admit(
                    both[k], lane=lane, intercept=intercept, slots=slots
                )
            largest = kernel.run(both[k], start=step, length=length)
            both[k], rows = kernel.merge(both[k])
            answers.append((parents, largest, rows))
        held.pop(lane) if lane in held else held.update({lane: intercept})
        step += length
        _assert_equal_answers(*answers)
        _assert_equal_states(*both)


def _assert_equal_answers(first, second) -> None:
    for mine, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, other)


def _assert_equal_states(first: States, second: States) -> None:
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.intercepts, second.intercepts)
    np.testing.assert_array_equal(first.counts, second.counts)
    np.testing.assert_array_equal(first.costs, second.costs)


@pytest.mark.parametrize("kernel", [NumpyKernel(), CompiledKernel()])
def test_partitions_of_k_requests_are_counted_by_stirling_numbers(kernel) -> None:
    """Into at most 3 groups: S(5,1) + S(5,2) + S(5,3) = 1 + 15 + 25 = 41, all distinct."""
    states = empty_state(lanes=5, groups=3)
    for lane in range(5):
        states, _ = kernel.admit(states, lane=lane, intercept=lane, slots=5)
    assert len(states) == 41
    merged, _ = kernel.merge(states)
    assert len(merged) == 41


@pytest.mark.parametrize("kernel", [NumpyKernel(), CompiledKernel()])
def test_merging_keeps_the_cheapest_of_equal_partitions(kernel) -> None:
    """{0}{1} under both numberings is one partition; {0 1} is another."""
    labels = np.array([[0, 1], [1, 0], [0, 0]], dtype=np.uint8)
    states = States(
        labels,
        np.array([[5, 7], [7, 5], [12, 0]]),
        np.array([[1, 1], [1, 1], [2, 0]]),
        np.array([9, 4, 6]),
    )
    merged, rows = kernel.merge(states)
    assert rows.tolist() == [1, 2]
    assert merged.labels.tolist() == [[0, 1], [0, 0]]
    assert merged.intercepts.tolist() == [[5, 7], [12, 0]]
    assert merged.costs.tolist() == [4, 6]


def test_retiring_frees_the_lane() -> None:
    """The group forgets the request and the lane is idle."""
    kernel = CompiledKernel()
    states, _ = kernel.admit(empty_state(lanes=1, groups=1), lane=0, intercept=8, slots=1)
    kernel.retire(states, lane=0, intercept=8)
    assert states.labels.tolist() == [[IDLE]]
    assert (states.intercepts.tolist(), states.counts.tolist()) == ([[0]], [[0]])


@pytest.mark.parametrize("kv", [False, True])
def test_a_beam_brackets_the_optimum_and_widening_closes_it(kv: bool) -> None:
    """Bound <= OPT <= incumbent at any width; unlimited width meets both."""
    problem = wide_problem(kv=kv)
    exact = solve_problem(problem, method="dp")
    assert exact.optimal
    for width in (1, 10, 100, 1000):
        beam = solve_problem(problem, method="beam", options=Options(width=width))
        assert beam.bound <= exact.incumbent
        assert beam.incumbent is None or beam.incumbent >= exact.incumbent
    assert beam.incumbent == exact.incumbent


def test_both_kernels_give_the_same_optimum_on_a_longer_instance() -> None:
    """Sixty requests: two independent implementations of every move."""
    problem = wide_problem(5)
    found = [
        PartitionSearch(problem, budget=Budget(), kernel=kernel).run()
        for kernel in (NumpyKernel(), CompiledKernel())
    ]
    assert found[0] == found[1]
    assert found[0].exhausted


def test_a_ceiling_at_the_optimum_leaves_no_state_and_proves_it() -> None:
    """Nothing is below the optimum, so the bound reaches the ceiling."""
    problem = wide_problem(4)
    best = PartitionSearch(problem, budget=Budget()).run()
    below = PartitionSearch(problem, budget=Budget(), ceiling=best.sum_peak).run()
    assert below.assignment is None
    assert below.bound >= best.sum_peak


def test_the_time_limit_returns_a_judged_bracket() -> None:
    """One look at the clock an admission: 60 in the first beam, then the limit strikes."""
    problem = wide_problem(slots=8)
    exact = solve_problem(problem, method="dp")
    ticks = iter(range(10**6))
    budget = Budget(90.0, clock=lambda: float(next(ticks)))
    result = certify(problem, solve_problem(problem, method="dp", budget=budget))
    assert (result.stop, result.limit) == (Stop.LIMIT, Limit.TIME)
    assert result.bound <= exact.incumbent <= result.incumbent


def test_the_memory_limit_is_respected() -> None:
    """The first beam of 300 states fits, all partitions of up to 16 requests do not."""
    budget = Budget(memory_limit_bytes=400_000)
    result = solve_problem(wide_problem(slots=8), method="dp", budget=budget)
    assert (result.stop, result.limit) == (Stop.LIMIT, Limit.MEMORY)
    assert result.bound <= result.incumbent


def test_a_stop_request_ends_the_search() -> None:
    """As Ctrl-C does, here at once."""
    result = solve_problem(wide_problem(), method="dp", budget=Budget(should_stop=lambda: True))
    assert (result.stop, result.limit) == (Stop.INTERRUPTED, None)
    assert result.status == "unknown"
    assert result.bound is not None


def test_progress_counts_events_and_its_bound_never_exceeds_the_optimum() -> None:
    """Of the exact run, which follows the first beam."""
    problem = wide_problem()
    seen: list[Progress] = []
    result = solve_problem(problem, method="dp", budget=Budget(on_progress=seen.append))
    assert seen[-1].done == seen[-1].total == len(timeline(problem))
    assert all(p.bound <= result.incumbent for p in seen if p.bound is not None)


@pytest.mark.parametrize("seed", range(30))
def test_segment_bounds_hold_for_the_optimum_and_for_any_step(seed: int) -> None:
    """Per step and per segment, against the loads of a brute-force optimum."""
    instance = tiny_instance(seed)
    steps = fifo_steps(instance)
    problem = FixedAdmissions(instance, "time", steps)
    best = solve_problem(problem, method="brute")
    replica = {p.id: p.replica for p in best.assignment}
    for segment in timeline(problem):
        total = 0
        for k in range(segment.start, segment.start + segment.length):
            loads = [0] * instance.replicas
            for r in segment.active:
                loads[replica[r.id]] += r.prompt_tokens + k - steps[r.id]
            now = [r.prompt_tokens + k - steps[r.id] for r in segment.active]
            assert peak_bound(now, replicas=instance.replicas) <= max(loads)
            total += max(loads)
        first = weights(problem, segment)
        assert segment_bound(first, segment.length, replicas=instance.replicas) <= total


def test_the_pigeonhole_bound_beats_work_and_largest() -> None:
    """Five of 6 on 4 replicas: work 30/4 -> 8, largest 6, two share one: 12."""
    assert peak_bound([6] * 5, replicas=4) == 12


def test_long_gaps_and_long_outputs_cost_no_time() -> None:
    """A million idle steps, and outputs of a billion tokens: events count, steps do not."""
    requests = (
        OfflineRequest(0, 0, 5, 10**9),
        OfflineRequest(1, 3, 7, 10**9),
        OfflineRequest(2, 2 * 10**9, 9, 2),
    )
    instance = Instance(2, 1, None, 1e-7, 0.01, requests)
    result = solve(instance, method="dp", objective="time")
    assert result.optimal
    # Steps 0 .. 10^9 + 2 of the first two, and two of the third.
    assert result.steps == 10**9 + 3 + 2


def test_sums_beyond_64_bits_are_refused() -> None:
    """2^40 steps of a weight near 2^40 sum to more than 2^62."""
    instance = Instance(1, 1, None, 1e-7, 0.01, (OfflineRequest(0, 0, 2**40, 2**40),))
    with pytest.raises(InputError, match="total work"):
        solve(instance, method="dp")
