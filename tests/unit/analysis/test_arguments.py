"""The doors of the numerical layers: what comes in is exact, what does not fit is named."""

import numpy as np
import pytest

from brtheory.analysis.arguments import (
    LARGEST,
    checked_count,
    checked_integers,
    checked_lengths,
    checked_sample,
)
from brtheory.errors import InputError


@pytest.mark.parametrize("value", [0, -3, LARGEST + 1, 2.0, "8", True, None])
def test_a_count_is_an_integer_in_range(value):
    with pytest.raises(InputError, match=r"^replicas: expected an integer"):
        checked_count("replicas", value)


def test_a_numpy_integer_is_a_count_and_becomes_a_plain_int():
    assert type(checked_count("slots", np.int16(7))) is int


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"counts: expected integers, got values of type float64"),
        ([True, False], r"counts: expected integers, got values of type bool"),
        (["1"], r"counts: expected integers"),
        ([[1], [2]], r"counts: expected one dimension, got shape \(2, 1\)"),
        ([1, [2]], r"counts: expected a flat list of numbers, got a ragged one"),
        (3, r"counts: expected one dimension, got shape \(\)"),
        ([4, -1, -2], r"counts\[1\]: expected an integer from 0 to 2147483647, got -1"),
        (np.array([2**63 + 1], dtype=np.uint64), r"counts\[0\]: .* got 9223372036854775809"),
        ([2**70], r"counts: expected integers, got values of type object"),
    ],
)
def test_bad_integers_are_named_with_their_place(values, message):
    with pytest.raises(InputError, match=message):
        checked_integers("counts", values)


@pytest.mark.parametrize(
    ("prompts", "outputs", "message"),
    [
        ([], [], r"prompt_tokens: expected at least one request, got none"),
        ([1, 2], [1], r"output_tokens: expected 2 values, one a request, got 1"),
        ([5, 0], [1, 1], r"prompt_tokens\[1\]: expected an integer from 1"),
        ([5, 5], [1, -4], r"output_tokens\[1\]: .* got -4"),
    ],
)
def test_bad_lengths_are_named_with_their_request(prompts, outputs, message):
    with pytest.raises(InputError, match=message):
        checked_lengths(prompts, outputs)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_any_integer_type_is_taken_without_loss(dtype):
    prompts, outputs = checked_lengths(np.array([255, 1], dtype), np.array([1, 200], dtype))
    assert (prompts + outputs).tolist() == [256, 201]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.0, float("nan")], r"values\[1\]: expected a finite number, got nan"),
        ([float("-inf")], r"values\[0\]: expected a finite number, got -inf"),
        ([1j], r"values: expected numbers, got values of type complex128"),
        ([1.0, None], r"values: expected numbers, got values of type object"),
    ],
)
def test_a_sample_is_finite_numbers(values, message):
    with pytest.raises(InputError, match=message):
        checked_sample("values", values)
