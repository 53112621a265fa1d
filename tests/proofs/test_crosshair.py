"""The crosshair layer: the product's contracts hold, and nothing false or undecided passes."""

from dataclasses import replace

import pytest

from proofs import contracts
from proofs.layers import crosshair as layer
from proofs.layers.crosshair import contracts_of, crosshair, installed
from proofs.ledger import run
from proofs.statement import NOT_RUN_HERE, Statement, Verdict
from proofs.topics.pure_functions import INPUTS, N10, contract_holds
from tests.proofs import planted_contracts

PLANTED = planted_contracts.__name__
needs_crosshair = pytest.mark.skipif(not installed(), reason="crosshair not installed")


@needs_crosshair
@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("a_true_one", Verdict.CHECKED),
        ("a_false_one", Verdict.REFUTED),
        ("a_vacuous_one", Verdict.OPEN),
        ("an_undecided_one", Verdict.OPEN),
        ("no_such_one", Verdict.OPEN),
    ],
)
def test_only_a_confirmed_contract_passes(name: str, verdict: Verdict):
    outcome = crosshair("planted", PLANTED, name, seconds=1).check()
    assert outcome.verdict is verdict, outcome.detail
    assert (outcome.witness is not None) == (verdict is Verdict.REFUTED)


def test_a_layer_without_contracts_shows_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layer, "findings", lambda _module, _seconds: {})
    assert crosshair("empty", PLANTED).check().verdict is Verdict.OPEN


def test_a_machine_without_crosshair_shows_the_layer_as_not_run_here(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(layer, "find_spec", lambda _name: None)
    planted = crosshair("any", PLANTED, "a_true_one")
    statement = Statement("Z1", "A title", "claim", "x", "here", (planted,))
    (row,) = run([statement])
    assert row.layers[0].summary == f"crosshair {NOT_RUN_HERE}"


def test_every_contract_has_inputs_that_meet_it():
    assert {contract.__name__ for contract in INPUTS} == set(contracts_of(contracts.__name__))
    for contract, inputs in INPUTS.items():
        assert contract.__doc__
        assert inputs is not None


def test_a_broken_contract_is_seen_by_the_generated_cases(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contracts, "peak", min)
    assert not contract_holds(contracts.margins_measure_from_the_peak, [0, 3])
    assert contract_holds(contracts.positive_part_is_the_larger_of_it_and_zero, -4)
    assert replace(N10, id="Z1").about == N10.about
