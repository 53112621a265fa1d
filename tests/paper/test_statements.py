"""Claims are shown with mathematical signs and say what the ledger says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper.statements import written
from proofs.register import STATEMENTS

CLAIMS = {statement.id: statement.claim for statement in STATEMENTS}


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("0 <= I <= (G-1)(max - min)", "0 ≤ I ≤ (G−1)(max − min)"),
        ("exactly -F_g(Delta)", "exactly −F_g(Δ)"),
        ("I' <= T16's bound", "I′ ≤ T16's bound"),
        ("BR-0, T22 - T24, 2 - 1/G", "BR-0, T22–T24, 2 − 1/G"),
    ],
)
def test_signs_are_mathematical_and_names_stay_names(plain: str, shown: str) -> None:
    assert written(plain) == shown


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_writing_a_claim_twice_changes_nothing_and_loses_no_number(claim: str) -> None:
    once = written(claim)
    assert written(once) == once
    assert [c for c in once if c.isdigit()] == [c for c in claim if c.isdigit()]


@given(st.text(alphabet="abc ,.()019=+/", max_size=40))
def test_prose_without_signs_is_left_alone(text: str) -> None:
    assert written(text) == text
