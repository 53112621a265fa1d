"""The incremental horizon state equals the one rebuilt from scratch, after any history."""

from functools import partial

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brtheory.core.horizon import NEVER, HorizonState, RebuiltHorizonState
from brtheory.routers.backend import compiled_available

REPLICAS = 3
KINDS = [RebuiltHorizonState, HorizonState]
if compiled_available():
    from brtheory.routers.fast_horizon import CompiledHorizonState

    KINDS.append(partial(CompiledHorizonState, slots=8))

# A change is (kind, pick, tokens, finish from now); what does not apply to the state is left out.
changes = st.tuples(
    st.sampled_from(["admit", "retire", "refresh", "advance"]),
    st.integers(0, 7),
    st.integers(1, 10**12),
    st.one_of(st.none(), st.integers(-3, 40)),
)


def apply(change, twins, active, step):
    """Make one change to both states; return the step after it."""
    kind, pick, tokens, ahead = change
    finish = int(NEVER) if ahead is None else step + ahead
    if kind == "advance":
        steps = pick if ahead is None else pick * max(ahead, 0)
        for twin in twins:
            twin.advance(steps)
        return step + steps
    if kind == "admit" and pick not in active:
        active.add(pick)
        for twin in twins:
            twin.admit(pick, pick % REPLICAS, tokens=tokens, finish=finish)
    elif kind == "refresh" and pick in active:
        for twin in twins:
            twin.refresh(pick, finish=finish)
    elif kind == "retire" and pick in active:
        active.remove(pick)
        for twin in twins:
            twin.retire(pick)
    return step


@settings(max_examples=400, deadline=None)
@given(horizon=st.integers(0, 12), history=st.lists(changes, max_size=60))
# A finish past the window, replaced by an anchor and put back, is counted once when it enters.
@example(
    horizon=2,
    history=[
        ("admit", 0, 5, 9),
        ("refresh", 0, 5, None),
        ("refresh", 0, 5, 9),
        ("advance", 7, 1, 1),
        ("advance", 1, 1, 1),
    ],
)
def test_incremental_equals_rebuild_after_every_change(horizon, history):
    twins = [
        kind(replicas=REPLICAS, horizon=horizon) for kind in (HorizonState, RebuiltHorizonState)
    ]
    active, step = set(), 0
    for change in history:
        step = apply(change, twins, active, step)
        incremental, rebuilt = (twin.rows() for twin in twins)
        assert np.array_equal(incremental, rebuilt), change


@settings(max_examples=100, deadline=None)
@given(
    horizon=st.integers(0, 12),
    requests=st.lists(
        st.tuples(st.integers(1, 1000), st.one_of(st.none(), st.integers(1, 50))), max_size=8
    ),
    moves=st.lists(st.integers(0, 20), max_size=8),
)
def test_one_long_advance_equals_many_single_steps(horizon, requests, moves):
    far, near = (HorizonState(replicas=REPLICAS, horizon=horizon) for _ in range(2))
    for state in (far, near):
        for i, (tokens, finish) in enumerate(requests):
            state.admit(i, i % REPLICAS, tokens=tokens, finish=finish or int(NEVER))
    for steps in moves:
        far.advance(steps)
        for _ in range(steps):
            near.advance(1)
        assert np.array_equal(far.rows(), near.rows())


@settings(max_examples=100, deadline=None)
@given(
    horizon=st.integers(0, 12),
    requests=st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 30)), min_size=1, max_size=8),
    steps=st.integers(0, 12),
)
def test_without_outliving_the_present_rows_are_the_past_rows_moved_on(horizon, requests, steps):
    """Lhat(h) after k steps is Lhat(h + k) before, as long as nobody outlives a prediction."""
    state = HorizonState(replicas=REPLICAS, horizon=horizon)
    for i, (tokens, life) in enumerate(requests):
        state.admit(i, i % REPLICAS, tokens=tokens, finish=steps + life)
    before = state.rows().copy()
    state.advance(steps)
    kept = max(0, horizon + 1 - steps)
    assert np.array_equal(state.rows()[:, :kept], before[:, steps:])
