"""The window router on replicas that differ in speed: its books are in time, and stay exact."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState
from brtheory.core.unequal import Paces
from brtheory.routers import window
from brtheory.routers.params import WindowParams
from brtheory.routers.window import Window

NOW_S = 20.0


class CheckedLedger(TickLedger):
    """Compares its rows with B_g + A_g*(tokens held) after every admission."""

    admissions = 0

    def __init__(self, state):
        super().__init__(state)
        self.paces, self.tokens = state.paces, [row[0] for row in state.loads]

    def admit(self, requests, replica):
        super().admit(requests, replica)
        self.tokens[replica] += sum(request.prompt_tokens for request in requests)
        pairs = zip(self.paces.per_step, self.paces.per_token, strict=True)
        times = [b + a * load for load, (b, a) in zip(self.tokens, pairs, strict=True)]
        assert [row[0] for row in self.rows] == times
        assert self.envelope == [max(times)]
        CheckedLedger.admissions += 1


def paces(replicas):
    return st.builds(
        Paces,
        st.tuples(*[st.integers(0, 50)] * replicas),
        st.tuples(*[st.integers(1, 9)] * replicas),
        st.just(Fraction(1, 1000)),
    )


@st.composite
def states(draw, replicas):
    prompts = draw(st.lists(st.integers(1, 60), min_size=1, max_size=8))
    ready = sorted(draw(st.lists(st.integers(0, 19), min_size=len(prompts), max_size=len(prompts))))
    return TickState(
        [[draw(st.integers(0, 200))] for _ in range(replicas)],
        [draw(st.integers(0, 3)) for _ in range(replicas)],
        [Request(i, s, float(r)) for i, (s, r) in enumerate(zip(prompts, ready, strict=True))],
        NOW_S,
        paces=draw(paces(replicas)),
    )


def learned(**params):
    router = Window(WindowParams(**params))
    router.statistics.add(20, 4.0)
    return router


def test_after_each_admission_the_row_is_the_time_of_the_tokens_held(monkeypatch):
    monkeypatch.setattr(window, "TickLedger", CheckedLedger)

    @given(st.integers(1, 4).flatmap(states), st.sampled_from(["longest", "fit"]))
    def check(state, spare_order):
        learned(spare_order=spare_order).tick(state)

    check()
    assert CheckedLedger.admissions > 0


@given(states(2), st.integers(0, 50), st.integers(1, 9))
def test_the_unit_of_time_changes_no_decision_where_two_replicas_are_alike(state, step, token):
    """T = B + A*L on both: distances, overflow, margins and bonus all count A a token."""
    tokens = TickState(state.loads, state.free_slots, state.pool, NOW_S)
    timed = TickState(
        state.loads,
        state.free_slots,
        state.pool,
        NOW_S,
        paces=Paces((step, step), (token, token), Fraction(1)),
    )
    assert learned().tick(timed) == learned().tick(tokens)


@pytest.mark.parametrize(("per_token", "expected"), [((1, 1), 2), ((3, 1), 1)])
def test_a_slow_replica_takes_the_prompt_that_fits_in_time(per_token, expected):
    # Replica 1 holds 90. At A = 1 replica 0 (10) is 80 short and 80 fits; at A = 3 its time is 30,
    # 60 are missing, and 20 tokens add just these.
    state = TickState(
        [[10], [90]],
        [1, 0],
        [Request(0, 50), Request(1, 20), Request(2, 80)],
        paces=Paces((0, 0), per_token, Fraction(1)),
    )
    assert [a.id for a in learned(wait_weight=0.0).tick(state)] == [expected]


def test_holding_compares_times():
    # In tokens replica 1 has room below the peak, 30 + 10 = 40. At twice the time a token it is the
    # slowest itself (60), so any prompt raises the peak, and replica 0 (10) is lighter and full.
    state = TickState([[10], [30], [40]], [0, 1, 0], [Request(0, 10)])
    slow = TickState(
        state.loads,
        state.free_slots,
        state.pool,
        paces=Paces((0, 0, 0), (1, 2, 1), Fraction(1)),
    )
    router = {"hold_s": 100.0}  # long beside the waits it has learned
    assert [a.id for a in learned(**router).tick(state)] == [0]
    assert learned(**router).tick(slow) == []
