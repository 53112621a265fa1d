"""A trace refuses what breaks its rules, and its transformations obey their laws."""

from typing import Any

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.traces.schema import MAX_TOKENS, Trace


def trace(
    arrival: Any = (0.0, 1.0, 3.0), prompt: Any = (5, 6, 7), output: Any = (1, 2, 3)
) -> Trace:
    return Trace(
        "t", "test", False, np.array(arrival, dtype=float), np.array(prompt), np.array(output)
    )


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ({"arrival": (), "prompt": (), "output": ()}, "t"),
        ({"arrival": (0.0, 2.0, 1.0)}, "t: arrival_s[2]"),
        ({"arrival": (-1.0, 2.0, 3.0)}, "t: arrival_s[0]"),
        ({"arrival": (0.0, float("nan"), 3.0)}, "t: arrival_s[1]"),
        ({"prompt": (5, 0, 7)}, "t: prompt_tokens[1]"),
        ({"prompt": (5, 6)}, "t: prompt_tokens"),
        ({"output": (1, 2, MAX_TOKENS + 1)}, "t: output_tokens[2]"),
        ({"output": (1.0, 2.0, 3.5)}, "t: output_tokens"),
    ],
)
def test_columns_that_break_a_rule_are_named(columns: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        trace(**columns)
    assert caught.value.where == where


def test_columns_cannot_be_changed_and_do_not_follow_the_arrays_they_came_from() -> None:
    arrival = np.array([0.0, 1.0])
    made = Trace("t", "test", False, arrival, np.array([1, 1]), np.array([1, 1]))
    arrival[1] = -5.0
    assert made.arrival_s.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        made.prompt_tokens[0] = 9


def test_repeat_plays_the_trace_again_one_mean_gap_later() -> None:
    # span 3, two gaps: mean gap 1.5, so each round starts 4.5 s after the one before
    repeated = trace().repeat(8)
    assert repeated.arrival_s.tolist() == [0.0, 1.0, 3.0, 4.5, 5.5, 7.5, 9.0, 10.0]
    assert repeated.prompt_tokens.tolist() == [5, 6, 7, 5, 6, 7, 5, 6]


def test_repeat_of_few_rows_is_head_and_one_row_repeats_at_its_own_time() -> None:
    assert trace().repeat(2).arrival_s.tolist() == trace().head(2).arrival_s.tolist() == [0.0, 1.0]
    assert trace((2.0,), (5,), (1,)).repeat(3).arrival_s.tolist() == [2.0, 2.0, 2.0]


def test_head_longer_than_the_trace_is_the_trace() -> None:
    assert len(trace().head(99)) == 3


def test_scaling_divides_times_and_leaves_tokens_alone() -> None:
    scaled = trace().scaled(2.0)
    assert scaled.arrival_s.tolist() == [0.0, 0.5, 1.5]
    assert scaled.output_tokens.tolist() == [1, 2, 3]


@pytest.mark.parametrize("change", ["head", "repeat", "scaled"])
def test_transformations_refuse_zero(change: str) -> None:
    with pytest.raises(InputError):
        getattr(trace(), change)(0)


def test_prefixes_follow_their_rows() -> None:
    columns = (np.array([0.0, 1.0]), np.array([1, 2]), np.array([1, 2]), np.array([4, -1]))
    repeated = Trace("t", "test", False, *columns).repeat(3)
    assert repeated.prefix_id is not None
    assert repeated.prefix_id.tolist() == [4, -1, 4]
