"""What the numerical layers accept: counts, request lengths and samples, checked once at the door.

Rules: a count is an integer, never a boolean or a float that happens to be whole; request lengths
are one-dimensional integer arrays of equal length with 1 <= tokens <= ``LARGEST``; a sample is a
one-dimensional array of finite numbers. Everything else raises ``InputError`` with the field.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from brtheory.errors import InputError

IntegerArray = NDArray[np.int64]
SampleArray = NDArray[np.float64]

LARGEST = 2**31 - 1
"""Largest count or length accepted: sums over up to 2**31 of them stay exact in int64."""


def checked_count(name: str, value: int, *, least: int = 1) -> int:
    """Return ``value`` as an ``int``.

    Raises
    ------
    InputError
        If ``value`` is no integer, is smaller than ``least`` or larger than ``LARGEST``.

    Examples
    --------
    >>> checked_count("replicas", 8)
    8
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(name, "an integer", repr(value))
    if not least <= value <= LARGEST:
        raise InputError(name, f"an integer from {least} to {LARGEST}", value)
    return int(value)


def checked_lengths(
    prompt_tokens: ArrayLike, output_tokens: ArrayLike
) -> tuple[IntegerArray, IntegerArray]:
    """Return prompts and outputs of the same requests as int64 arrays.

    Parameters
    ----------
    prompt_tokens, output_tokens
        Integers, shape (n,) with n >= 1, tokens, 1..``LARGEST``.

    Raises
    ------
    InputError
        If an array is empty, not one-dimensional, not of integers or out of range, or if the two
        differ in length; the message names the first offending request.

    Examples
    --------
    >>> prompts, outputs = checked_lengths([12, 7], [5, 1])
    >>> prompts.dtype, outputs.tolist()
    (dtype('int64'), [5, 1])
    """
    prompts = checked_integers("prompt_tokens", prompt_tokens, least=1)
    outputs = checked_integers("output_tokens", output_tokens, least=1)
    if len(prompts) == 0:
        raise InputError("prompt_tokens", "at least one request", "none")
    if len(prompts) != len(outputs):
        raise InputError("output_tokens", f"{len(prompts)} values, one a request", len(outputs))
    return prompts, outputs


def checked_integers(name: str, values: ArrayLike, *, least: int = 0) -> IntegerArray:
    """Return ``values`` as an int64 array of shape (n,), n >= 0.

    Raises
    ------
    InputError
        If the values are not one-dimensional, not integers, or not from ``least`` to ``LARGEST``.

    Examples
    --------
    >>> checked_integers("counts", [3, 0]).tolist()
    [3, 0]
    """
    array = _one_dimensional(name, values)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(name, "integers", f"values of type {array.dtype}")
    numbers = array.astype(np.int64)
    # A uint64 beyond int64 wraps to a negative number, which is outside as well.
    outside = (numbers < least) | (numbers > LARGEST)
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(f"{name}[{first}]", f"an integer from {least} to {LARGEST}", array[first])
    return numbers


def checked_sample(name: str, values: ArrayLike) -> SampleArray:
    """Return ``values`` as a float64 array of shape (n,), n >= 0.

    Raises
    ------
    InputError
        If the values are not one-dimensional, not numbers, or not all finite.

    Examples
    --------
    >>> checked_sample("seeds", [1, 2.5]).tolist()
    [1.0, 2.5]
    """
    array = _one_dimensional(name, values)
    if array.size and array.dtype.kind not in "iuf":
        raise InputError(name, "numbers", f"values of type {array.dtype}")
    sample = array.astype(np.float64)
    finite = np.isfinite(sample)
    if not finite.all():
        first = int(np.argmin(finite))
        raise InputError(f"{name}[{first}]", "a finite number", sample[first])
    return sample


def _one_dimensional(name: str, values: ArrayLike) -> NDArray[np.generic]:
    try:
        array = np.asarray(values)
    except ValueError as ragged:
        raise InputError(name, "a flat list of numbers", "a ragged one") from ragged
    if array.ndim != 1:
        raise InputError(name, "one dimension", f"shape {array.shape}")
    return array
