"""The statements themselves: complete, bound, and as expected in every quick layer."""

import pytest

from proofs.register import STATEMENTS
from proofs.statement import Layer, Method, Statement, Verdict, agrees, combined

THEOREMS = {f"T{number}" for number in range(1, 38)} | {"T1'", "T16'"}
ROWS_OF_FALSE_CLAIMS = 14
QUICK = [
    (statement, layer) for statement in STATEMENTS for layer in statement.layers if layer.quick
]
DIFFERENTIAL = {"T29"}
"""Counts as one check of two programs."""
WITH_NIGHTLY = {"T28", "N10"}


@pytest.mark.parametrize(
    ("statement", "layer"), QUICK, ids=[f"{s.id} {layer.key}" for s, layer in QUICK]
)
def test_every_quick_layer_finds_what_the_statement_stands_for(statement: Statement, layer: Layer):
    outcome = layer.check()
    assert agrees(outcome.verdict, expected=statement.expected), (outcome.detail, outcome.witness)


def test_every_theorem_and_every_false_claim_is_there_once():
    ids = [statement.id for statement in STATEMENTS]
    assert len(set(ids)) == len(ids)
    assert set(ids) >= THEOREMS
    assert {f"R{number}" for number in range(1, ROWS_OF_FALSE_CLAIMS + 1)} <= set(ids)


def test_every_decided_statement_has_two_layers_of_different_kinds():
    for statement in STATEMENTS:
        methods = {layer.method for layer in statement.layers}
        assert len(methods) >= 2 or statement.id in DIFFERENTIAL, statement.id
        assert methods != {Method.SYMBOLIC}, statement.id


def test_nightly_layers_are_never_the_only_ones_of_their_kind():
    """A statement must not rest on what everyday runs leave out."""
    assert {s.id for s in STATEMENTS if any(layer.nightly for layer in s.layers)} == WITH_NIGHTLY
    for statement in STATEMENTS:
        needed = {layer.method for layer in statement.layers if not layer.nightly}
        assert {layer.method for layer in statement.layers} == needed, statement.id
        assert not any(layer.nightly and layer.quick for layer in statement.layers)


def test_layers_of_a_statement_have_different_names():
    for statement in STATEMENTS:
        keys = [layer.key for layer in statement.layers]
        assert len(set(keys)) == len(keys), statement.id


def test_refuted_claims_are_refuted_on_the_product():
    for statement in STATEMENTS:
        if statement.expected is Verdict.REFUTED:
            assert any(layer.method is Method.SEARCH for layer in statement.layers), statement.id


def test_a_statement_without_layers_is_open():
    assert combined([]) is Verdict.OPEN
    assert all(s.expected is Verdict.OPEN for s in STATEMENTS if not s.layers)


@pytest.mark.parametrize(
    ("found", "together"),
    [
        ([Verdict.PROVED, Verdict.CHECKED], Verdict.PROVED),
        ([Verdict.CHECKED], Verdict.CHECKED),
        ([Verdict.PROVED, Verdict.OPEN], Verdict.OPEN),
        ([Verdict.PROVED, Verdict.REFUTED, Verdict.OPEN], Verdict.REFUTED),
    ],
)
def test_a_counterexample_outweighs_and_an_unknown_is_never_a_pass(found, together):
    assert combined(found) is together


@pytest.mark.parametrize("verdict", list(Verdict))
def test_what_agrees_with_an_expectation(verdict: Verdict):
    holds = verdict in {Verdict.PROVED, Verdict.CHECKED}
    refuted = verdict is Verdict.REFUTED
    assert agrees(verdict, expected=Verdict.PROVED) == holds
    assert agrees(verdict, expected=Verdict.CHECKED) == holds
    assert agrees(verdict, expected=Verdict.REFUTED) == refuted
    assert agrees(verdict, expected=Verdict.OPEN) == (not refuted)
