"""Projected loads by hand: two requests, a window of three steps."""

import pytest

from brtheory.core.horizon import NEVER, HorizonState, predicted_finish
from brtheory.errors import InputError


@pytest.fixture
def state():
    """Two replicas, H = 2; replica 0 runs request 7 (10 tokens, leaves at step 2)."""
    state = HorizonState(replicas=2, horizon=2)
    state.admit(7, 0, tokens=10, finish=2)
    return state


def test_a_request_counts_with_its_growth_until_its_predicted_finish(state):
    # Present at steps 0 and 1 with 10 and 11 tokens, gone at step 2.
    assert state.rows().tolist() == [[10, 11, 0], [0, 0, 0]]


def test_an_anchor_counts_at_every_step_and_does_not_count_down(state):
    state.admit(8, 1, tokens=5, finish=int(NEVER))
    assert state.rows().tolist()[1] == [5, 6, 7]
    state.advance(4)
    assert state.rows().tolist()[1] == [9, 10, 11]


def test_a_request_that_outlives_its_prediction_is_an_anchor_until_refreshed(state):
    state.advance(1)
    assert state.rows().tolist()[0] == [11, 0, 0]
    state.advance(1)
    assert state.rows().tolist()[0] == [12, 13, 14]
    state.refresh(7, finish=3)
    assert state.rows().tolist()[0] == [12, 0, 0]


def test_retiring_takes_a_request_out_of_every_column(state):
    state.admit(8, 0, tokens=100, finish=int(NEVER))
    state.retire(8)
    assert state.rows().tolist() == [[10, 11, 0], [0, 0, 0]]


def test_the_window_slides_through_its_buffer_without_losing_a_column():
    state = HorizonState(replicas=1, horizon=3)
    state.admit(0, 0, tokens=1, finish=1000)
    for step in range(1, 50):
        state.advance(1)
        assert state.rows().tolist() == [[1 + step + h for h in range(4)]]


def test_rows_are_read_only(state):
    with pytest.raises(ValueError, match="read-only"):
        state.rows()[0, 0] = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.admit(7, 1, tokens=1, finish=9), "expected ids used once, got id 7 twice"),
        (lambda s: s.retire(9), "expected the id of an active request, got 9"),
        (lambda s: s.refresh(9, finish=1), "expected the id of an active request, got 9"),
        (lambda s: s.advance(-1), "steps: expected an integer >= 0, got -1"),
    ],
)
def test_changes_that_make_no_sense_are_refused_and_change_nothing(state, change, message):
    before = state.rows().copy()
    with pytest.raises(InputError, match=message):
        change(state)
    assert state.rows().tolist() == before.tolist()


@pytest.mark.parametrize(
    ("contribution", "finish"),
    # At step 100 with H = 10: at least one step, rounded up; from H on an anchor.
    [(0.0, 101), (0.2, 101), (3.0, 103), (3.1, 104), (9.9, 110), (10.0, NEVER), (12.0, NEVER)],
)
def test_predicted_finish_rounds_up_and_anchors_at_the_horizon(contribution, finish):
    assert predicted_finish(contribution, step=100, horizon=10) == finish
