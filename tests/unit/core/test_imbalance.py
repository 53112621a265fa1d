"""Laws of imbalance and margins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.imbalance import imbalance, margins, peak, spread

LOADS = st.lists(st.integers(0, 10**6), min_size=1, max_size=9)


@given(LOADS)
def test_imbalance_is_the_sum_of_margins(loads):
    assert imbalance(loads) == sum(margins(loads))


@given(LOADS)
def test_imbalance_lies_between_spread_and_its_multiple(loads):
    """T12: max - min <= I <= (G - 1)(max - min)."""
    assert spread(loads) <= imbalance(loads) <= max(1, len(loads) - 1) * spread(loads)


@given(LOADS, st.integers(0, 10**6))
def test_a_constant_on_every_replica_changes_nothing(loads, constant):
    assert imbalance([load + constant for load in loads]) == imbalance(loads)


@given(LOADS, st.randoms())
def test_order_of_replicas_does_not_matter(loads, random):
    shuffled = random.sample(loads, len(loads))
    assert imbalance(shuffled) == imbalance(loads)


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([7], 0),
        ([5, 5, 5], 0),
        # 2*10 - (10 + 4)
        ([10, 4], 6),
        # 4*9 - (9 + 0 + 3 + 9)
        ([9, 0, 3, 9], 15),
    ],
)
def test_small_cases(loads, expected):
    assert imbalance(loads) == expected
    assert min(margins(loads)) == 0
    assert peak(loads) == max(loads)
