"""The exact horizon score: it is the change of imbalance, in a score, in a tick and in a run."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.exact_score import row
from brtheory.core.fscore import f_score, horizon_weights
from brtheory.core.growing_score import growing_score, step_rewards, tokens_ahead
from brtheory.core.imbalance import imbalance, margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.core.unequal import Paces
from brtheory.errors import InputError
from brtheory.prediction.protocol import Prediction
from brtheory.proxy.ticker import RouterChoice
from brtheory.routers.growing import GrowingRoute
from brtheory.routers.params import HorizonParams
from brtheory.routers.reference import BalanceRouteHorizon
from brtheory.routers.registry import build_router, find_router
from brtheory.routers.tick_document import TickDocument, answer_tick
from brtheory.simulation.compiled.support import supported
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.projection import ProjectionTracker
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, Lengths
from brtheory.traces.schema import Trace
from tests.strategies import tick_states

DOCS = Path(__file__).parents[3] / "docs"
HORIZON = 4
DISCOUNTS = {gamma: [max(1, round(1024 * gamma**h)) for h in range(HORIZON + 1)]
             for gamma in (1.0, 0.7)}  # fmt: skip
ADMITTED = st.lists(st.tuples(st.integers(1, 9), st.integers(1, HORIZON + 2)), max_size=3)
"""Prompt and remaining steps of what is admitted."""
PACES = Paces(per_step=(0, 5, 2, 0, 7), per_token=(1, 3, 2, 1, 4), unit_s=Fraction(1))


def weights_of(replicas, *, discount=1.0, alpha=1.0, horizon=HORIZON):
    return horizon_weights(
        horizon=horizon, discount=discount, reward_weight=alpha, overflow_weight=replicas
    )


def rewards_of(discount, alpha=1.0, horizon=HORIZON):
    return step_rewards(horizon=horizon, discount=discount, reward_weight=alpha)


def weigh(requests, h):
    """KV tokens of requests (prompt, steps left) h steps after their admission."""
    return sum(s + h for s, c in requests if h < c)


def exact(**params):
    return GrowingRoute(HorizonParams(horizon=HORIZON, score="exact", **params))


def decided(router, state):
    return [(a.id, a.replica, a.stage, a.score) for a in router.tick(state)]


def profile(requests):
    columns = [tokens_ahead(s, steps_present=c, horizon=HORIZON) for s, c in requests]
    return [sum(column) for column in zip(*columns, strict=True)] if columns else [0] * 5


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 20), st.integers(1, HORIZON + 2)), max_size=3),
        min_size=1, max_size=4,
    ),
    ADMITTED,
    st.sampled_from(list(DISCOUNTS)),
    st.data(),
)  # fmt: skip
def test_the_score_is_the_discounted_change_of_imbalance(running, admitted, discount, data):
    """T24, against loads of every step counted request by request, with and without the set."""
    replica = data.draw(st.integers(0, len(running) - 1))
    window, gained = [], 0
    for h, d in enumerate(DISCOUNTS[discount]):
        before = [weigh(requests, h) for requests in running]
        after = [load + weigh(admitted, h) * (g == replica) for g, load in enumerate(before)]
        window.append(margins(before)[replica])
        gained += d * (imbalance(before) - imbalance(after))
    prices = weights_of(len(running), discount=discount).overflow
    score = growing_score(profile(admitted), window, rewards_of(discount), prices)
    assert score == 64 * gained


@given(
    st.integers(0, 60),
    st.lists(st.integers(0, 40), min_size=HORIZON + 1, max_size=HORIZON + 1),
    st.sampled_from(list(DISCOUNTS)),
    st.sampled_from([0.001, 1.0, 3.7]),
)
def test_a_set_that_neither_grows_nor_ends_has_the_papers_score(delta, window, discount, alpha):
    weights, rewards = weights_of(5, discount=discount, alpha=alpha), rewards_of(discount, alpha)
    assert sum(rewards) == weights.reward
    score = growing_score([delta] * (HORIZON + 1), window, rewards, weights.overflow)
    assert score == f_score(delta, window, weights)


@settings(max_examples=200)
@given(tick_states(), st.sampled_from([None, 0, 2.5]), st.sampled_from(["f-score", "longest"]))
def test_without_a_horizon_it_decides_as_the_paper(state, beta, stage1):
    params = HorizonParams(horizon=0, overflow_weight=beta, stage1=stage1, score="exact")
    assert decided(GrowingRoute(params), state) == decided(BalanceRouteHorizon(params), state)


def change(rows, g, added, *, discount, paces=None):
    """64 times the discounted imbalance that ``added`` (prompt, steps left) on g takes off."""
    gained = 0
    for h, d in enumerate(DISCOUNTS[discount]):
        before = [row[h] for row in rows]
        after = [load + weigh(added, h) * (i == g) for i, load in enumerate(before)]
        gained += d * (waste(before, paces) - waste(after, paces))
    return 64 * gained


def waste(loads, paces):
    return imbalance(timed(loads, paces))


def timed(loads, paces):
    if paces is None:
        return loads
    pairs = zip(paces.per_step, paces.per_token, loads, strict=True)
    return [step + token * load for step, token, load in pairs]


def second_reading(state, left, *, discount, threshold, most):
    """The tick once more, every set valued by the imbalance it takes off; no shared code."""
    rows, cap, pool, out = [list(r) for r in state.loads], list(state.free_slots), [*state.pool], []
    room = list(state.free_tokens) if state.free_tokens is not None else [10**9] * len(cap)

    def value(chosen, g):
        added = [(r.prompt_tokens, left[r.id]) for r in chosen]
        return change(rows, g, added, discount=discount, paces=state.paces)

    def margin(g):
        times = timed([row[0] for row in rows], state.paces)
        return max(times) - times[g]

    while sum(cap) > 0 and pool:
        stage = 1 if sum(cap) > threshold else 2
        g = max((g for g in range(len(cap)) if cap[g]), key=lambda g: (cap[g], margin(g), -g))
        window = pool if stage == 1 else pool[:most]
        options = []
        for size in range(1, (1 if stage == 1 else min(cap[g], most)) + 1):
            for chosen in combinations(range(len(window)), size):
                requests = [window[j] for j in chosen]
                if sum(r.reserved_tokens for r in requests) <= room[g]:
                    delta, mask = sum(r.prompt_tokens for r in requests), sum(2**j for j in chosen)
                    options.append((value(requests, g), delta, -mask, requests))
        if not options:
            cap[g] = 0
            continue
        best = max(options, key=lambda option: option[:3])
        if best[0] <= 0:
            best = max((o for o in options if len(o[3]) == 1), key=lambda option: option[:3])
        for r in best[3]:
            out.append((r.id, g, stage, best[0]))
            pool.remove(r)
            room[g] -= r.reserved_tokens
            rows[g] = [load + weigh([(r.prompt_tokens, left[r.id])], h)
                       for h, load in enumerate(rows[g])]  # fmt: skip
        cap[g] -= len(best[3])
    return out


@st.composite
def cases(draw):
    """A state, possibly of replicas that differ in speed, and how long each request stays."""
    state = draw(tick_states(horizon=HORIZON))
    count = len(state.loads)
    if draw(st.booleans()):
        paces = Paces(PACES.per_step[:count], PACES.per_token[:count], PACES.unit_s)
        state = replace(state, paces=paces)
    return state, {r.id: draw(st.integers(1, HORIZON + 2)) for r in state.pool}


@settings(max_examples=200)
@given(cases(), st.sampled_from(list(DISCOUNTS)), st.integers(0, 6), st.integers(1, 4))
def test_a_tick_equals_a_second_reading(case, discount, threshold, most):
    state, left = case
    router = exact(discount=discount, greedy_threshold=threshold, max_subset=most)
    router.foresee(lambda request: left[request.id])
    expected = second_reading(state, left, discount=discount, threshold=threshold, most=most)
    assert decided(router, state) == expected


@given(cases(), st.sampled_from(["margin-first", "slots-first"]))
def test_the_scores_of_a_tick_add_up_to_its_change_of_imbalance(case, key_order):
    """Rows are refreshed by what grows and ends, so that single admissions telescope (T10, T24)."""
    state, left = case
    router = exact(max_subset=1, key_order=key_order)
    router.foresee(lambda request: left[request.id])
    admissions, prompts = router.tick(state), {r.id: r.prompt_tokens for r in state.pool}
    rows, gained = [list(row) for row in state.loads], 0
    for h in range(HORIZON + 1):
        before = [row[h] for row in rows]
        after = [
            load + weigh([(prompts[a.id], left[a.id]) for a in admissions if a.replica == g], h)
            for g, load in enumerate(before)
        ]
        gained += waste(before, state.paces) - waste(after, state.paces)
    assert sum(a.score for a in admissions) == 64 * 1024 * gained


def small_state(*prompts):
    # H = 4: margins of 10 at every step on replica 1, its one free slot.
    return TickState([[20] * 5, [10] * 5], [0, 1], [Request(i, s) for i, s in enumerate(prompts)])


def test_growth_leaves_room_for_itself():
    # Constant: 10 fills the margin, 5*10 = 50, 8 has 40. Exact, F = x - 2*(x - 10)_+ a step:
    # 10 grows over it, 10 + 9 + 8 + 7 + 6 = 40; 8 fits as 8, 9, 10, then 9, 8: 44.
    state = small_state(10, 8)
    constant = BalanceRouteHorizon(HorizonParams(horizon=HORIZON))
    assert decided(constant, state) == [(0, 1, 2, 50 * 65536)]
    assert decided(exact(), state) == [(1, 1, 2, 44 * 65536)]
    # Nothing grows, or both end before they have: the paper's choice again, 50 and 10.
    assert decided(exact(growth="off"), state) == [(0, 1, 2, 50 * 65536)]
    router = exact()
    router.foresee(lambda _request: 1)
    assert decided(router, state) == [(0, 1, 2, 10 * 65536)]


def test_a_tick_document_says_how_long_requests_would_stay():
    document = {
        "schema": "brtheory.tick/1", "router": "brh", "params": {"horizon": 4, "score": "exact"},
        "replicas": [{"loads": [20] * 5, "free_slots": 0}, {"loads": [10] * 5, "free_slots": 1}],
        "pool": [{"id": 0, "prompt_tokens": 10}, {"id": 1, "prompt_tokens": 8}],
    }  # fmt: skip

    def answer():
        return answer_tick(TickDocument.model_validate(document))["admissions"]

    # As above; then 8 ends after one step, worth 8 against the 40 of the 10 that stays.
    assert answer() == [{"id": 1, "replica": 1, "stage": 2, "score": 44 * 65536}]
    document["pool"][1]["steps_present"] = 1
    assert answer() == [{"id": 0, "replica": 1, "stage": 2, "score": 40 * 65536}]


@pytest.mark.parametrize("excess", [0, 1])
def test_the_token_limit_counts_growth(excess):
    router = exact()
    limit = router.weights(2).token_limit
    # Two requests each grow by H = 4 within the horizon.
    state = TickState([[0] * 5] * 2, [1, 1], [Request(0, limit - 15), Request(1, 7 + excess)])
    if not excess:
        assert len(router.tick(state)) == 2
        return
    with pytest.raises(InputError, match=f"pool: expected at most {limit} prompt tokens"):
        router.tick(state)


class Foreteller:
    """Says that requests end at steps that follow from their ids; 4 in 5 within the horizon."""

    def predict(self, request, *, age, horizon):
        ends = request.id % 5
        return Prediction(1.0, float(ends)) if ends else Prediction(0.0, None)


@given(tick_states(horizon=HORIZON, kv=st.just(False)))
def test_the_row_within_a_tick_is_the_one_projected_afterwards(state):
    """What the second admission of a tick sees is what a tick right after the first would see."""

    def tracker():
        return ProjectionTracker(Foreteller(), replicas=len(state.loads), horizon=HORIZON)

    router, ahead = exact(max_subset=1), tracker()
    router.foresee(ahead.steps_present)
    empty = replace(state, loads=[[0] * (HORIZON + 1) for _ in state.loads])
    at_once, one_by_one = router.tick(empty), []
    # The threshold of stage 1 is met by slots, which are counted the same in both.
    pool, slots = list(state.pool), list(state.free_slots)
    for _ in at_once:
        rows = ahead.rows(0).tolist()
        first = router.tick(replace(empty, loads=rows, pool=pool, free_slots=slots))[0]
        one_by_one.append(first)
        (request,) = [r for r in pool if r.id == first.id]
        pool.remove(request)
        slots[first.replica] -= 1
        ahead.admit(request, first.replica, step=0)
    assert one_by_one == at_once


def drawn(count):
    rng = np.random.default_rng(3)
    return Trace(
        "drawn", "by hand", True, np.arange(count, dtype=np.float64) / 20,
        rng.integers(10, 2000, size=count), rng.integers(1, 60, size=count),
    )  # fmt: skip


def run(*, stride=None, **given):
    params = HorizonParams(**{"horizon": 9, "score": "exact", **given.pop("params", {})})
    config = RunConfig(
        router="brh", shape=ClusterShape(3, 6), params=params,
        arrivals=parse_arrivals("closed:1.5"), **given,
    )  # fmt: skip
    return simulate(drawn(250), config, longest_stride=stride)


@pytest.mark.parametrize("predictor", ["oracle", "survival"])
@pytest.mark.parametrize("params", [{}, {"horizon": "auto"}, {"growth": "off"}], ids=str)
def test_every_path_takes_the_same_decisions(params, predictor):
    """Also where a fast backend is asked for: the reference decides, event by event."""
    one = run(params=params, predictor=predictor, backend="reference")
    for stride in (None, 1):
        other = run(params=params, predictor=predictor, backend="numpy", stride=stride)
        assert (other.replica == one.replica).all()
        assert (other.admitted_step == one.admitted_step).all()


def test_what_changes_a_run_is_growth_and_ends():
    """Told of no end (a gate that none passes) and without growth, it is the paper's score."""
    nobody = {"gate": 1.0}
    one, constant, still, paper = (
        run(predictor="survival", params=nobody | params)
        for params in (
            {},
            {"score": "constant"},
            {"growth": "off"},
            {"growth": "off", "score": "constant"},
        )
    )
    assert (one.replica != constant.replica).any()
    assert (one.replica != run().replica).any()
    assert (still.replica == paper.replica).all()
    assert (still.admitted_step == paper.admitted_step).all()


def test_the_compiled_loop_leaves_it_to_the_engine():
    lengths, plan = Lengths(np.array([5]), np.array([3])), ArrivalPlan("closed", np.zeros(1), 1)
    rng = np.random.default_rng(0)
    for score in ("constant", "exact"):
        for backend in ("reference", "compiled"):
            router = build_router(find_router("brh"), HorizonParams(score=score), rng,
                                  backend=backend)  # fmt: skip
            taken = score == "constant" and backend == "reference"
            assert supported(lengths, router, plan, None) is taken
            assert isinstance(router, GrowingRoute) is (score == "exact")


def test_the_proxy_refuses_it():
    with pytest.raises(InputError, match=r"router.params.score: expected constant"):
        RouterChoice("brh", {"score": "exact"}).build()


def test_the_table_of_the_documentation_is_that_of_the_result_file():
    """Regenerate with `python -m benchmarks.exact_score`."""
    document = json.loads((DOCS / "results" / "exact_score.json").read_text(encoding="utf-8"))
    text = (DOCS / "routers.md").read_text(encoding="utf-8")
    assert document["cells"]
    for cell in document["cells"]:
        assert row(cell) in text
