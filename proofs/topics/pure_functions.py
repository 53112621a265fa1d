"""N10: the pure functions under the routers keep their contracts, on integers of any size."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from brtheory.core.fscore import f_score, one_step_weights, positive_part, time_f_score
from brtheory.core.horizon import predicted_finish
from brtheory.core.imbalance import imbalance, margins, peak, spread
from brtheory.core.subsets import members
from brtheory.core.unequal import time_loads
from proofs import contracts
from proofs.layers.crosshair import CONTRACTS, contracts_of, crosshair
from proofs.layers.search import sampled
from proofs.statement import Layer, Statement, Verdict

NIGHTLY_SECONDS = 60
EXAMPLES = 60

_small = st.integers(0, 3)
_any = st.integers(-(2**40), 2**40) | st.integers(-6, 6)
_size = st.integers(0, 2**40) | st.integers(0, 6)
_loads = st.tuples(st.lists(_any, min_size=2, max_size=3))

INPUTS: dict[Callable[..., None], st.SearchStrategy[tuple[Any, ...]]] = {
    contracts.positive_part_is_the_larger_of_it_and_zero: st.tuples(_any),
    contracts.margins_measure_from_the_peak: _loads,
    contracts.imbalance_is_the_sum_of_margins: _loads,
    contracts.imbalance_lies_between_spreads: _loads,
    contracts.score_is_what_it_takes_off: st.tuples(_any, _any, _any, _size),
    contracts.score_is_at_most_the_margin: st.tuples(st.integers(2, 1024), _size, _size),
    contracts.departure_changes_it_within_bounds: st.tuples(_size, _any, _any, _size).map(
        lambda case: (case[0] + case[3], *case[1:])
    ),
    contracts.window_score_adds_up: st.tuples(_any, _any, _size),
    contracts.time_score_is_what_it_takes_off: st.tuples(_size, _size, _size),
    contracts.a_finish_is_ahead_or_never: st.tuples(_small, _small, _small),
    contracts.members_are_the_bits_of_a_mask: st.tuples(st.integers(0, 63)),
}
"""Inputs that meet what each contract needs."""


def contract_holds(*case: Any) -> bool:
    """Whether a contract, the first of the case, keeps its asserts on the rest."""
    contract, *values = case
    try:
        contract(*values)
    except AssertionError:
        return False
    return True


def _generated() -> Layer:
    kinds = [_with_contract(contract, inputs) for contract, inputs in INPUTS.items()]
    return sampled(
        "every contract on generated integers up to 2^40",
        st.one_of(kinds),
        contract_holds,
        examples=EXAMPLES * len(INPUTS),
    )


def _with_contract(
    contract: Callable[..., None], inputs: st.SearchStrategy[tuple[Any, ...]]
) -> st.SearchStrategy[tuple[Any, ...]]:
    return inputs.map(lambda case: (contract, *case))


N10 = Statement(
    id="N10",
    title="Contracts of the pure functions",
    claim="positive_part, margins, imbalance, spread, the scores of tokens and of time, predicted "
    "finishes and members of masks keep their contracts: on integers of any size, for up to three "
    "replicas, two steps, masks of six bits.",
    latex=r"\forall\, \text{inputs}: \text{pre} \Rightarrow \text{post}",
    hypotheses=("pure Python only: numpy arrays take no symbols",),
    source="this project",
    about=(
        positive_part,
        f_score,
        time_f_score,
        one_step_weights,
        imbalance,
        margins,
        peak,
        spread,
        predicted_finish,
        members,
        time_loads,
    ),
    expected=Verdict.CHECKED,
    layers=(
        crosshair("every contract, 5 s of CPU each", CONTRACTS, *contracts_of(CONTRACTS)),
        crosshair(
            f"every contract, {NIGHTLY_SECONDS} s of CPU each",
            CONTRACTS,
            *contracts_of(CONTRACTS),
            seconds=NIGHTLY_SECONDS,
            nightly=True,
        ),
        _generated(),
    ),
)

STATEMENTS = (N10,)
