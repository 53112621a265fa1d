"""T29: the product decides like the program extracted from the proved rule."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from proofs.kernel.oracle import Case, ExtractedTick, first_disagreement, random_case
from proofs.kernel.toolchain import EXTRACTION, missing
from proofs.layers.kernel import ORACLE_CASES, extracted_oracle
from proofs.ledger import run
from proofs.statement import NOT_RUN_HERE, Statement, Verdict
from tests.proofs.mutants import MUTANTS, Mutant, applied

CASES = ORACLE_CASES if os.environ.get("BRTHEORY_NIGHTLY") == "1" else 2000
needs_ocaml = pytest.mark.skipif(missing(EXTRACTION) != [], reason="coqc or ocamlopt not installed")


WEIGHTS = {"one_step_weights", "horizon_weights"}
"""Both programs are given the product's weights, so the oracle cannot see these."""
OUT_OF_THE_RULE = {"fits", "close", "time_f_score"}
"""KV room and speeds: the extracted rule has neither, nor have the ticks it is given."""
TICK_MODULES = ("brtheory.core.fscore", "brtheory.core.tick", "brtheory.core.subsets")
ON_THE_TICK = [
    mutant
    for mutant in MUTANTS
    if mutant.function.__module__ in (*TICK_MODULES, "brtheory.routers.reference")
    and mutant.function.__name__ not in WEIGHTS | OUT_OF_THE_RULE
    and not any(part in mutant.old for part in ("per_token", "reserved_tokens"))
    and mutant.function is not TickLedger.margin  # only compared: less a constant is the same
]


@pytest.fixture(scope="module")
def program() -> Iterator[ExtractedTick]:
    with TemporaryDirectory() as name:
        yield ExtractedTick(Path(name))


@needs_ocaml
def test_product_and_extracted_tick_decide_alike(program: ExtractedTick):
    assert first_disagreement(program, CASES, seed=29) is None


@needs_ocaml
def test_a_known_tick_is_decided_as_by_hand(program: ExtractedTick):
    """L = (5, 0), sizes 3, 4, 5, two slots on the idle replica, stage 2 only.

    Margin 5: F(3) = 3, F(4) = 4, F(5) = 5, F(3 + 4) = 7 - 2*2 = 3, so 5 goes alone. Then both
    weigh 5: F(3) = 3 - 2*3 = -3 > F(4) = -4, and the guard takes 3.
    """
    pool = [Request(id=i, prompt_tokens=size) for i, size in enumerate((3, 4, 5))]
    router = BalanceRoute(BalanceRouteParams(greedy_threshold=2))
    case = Case(router, TickState([[5], [0]], [0, 2], pool))
    assert program.decide([case]) == [[(2, 1, 2, 5), (0, 1, 2, -3)]] == [case.by_product()]


@needs_ocaml
@pytest.mark.parametrize("mutant", ON_THE_TICK, ids=lambda mutant: mutant.name)
def test_the_oracle_notices_mutants_of_the_tick(program: ExtractedTick, mutant: Mutant):
    with applied(mutant):
        assert _noticed(program)


@needs_ocaml
def test_the_layer_records_how_many_cases_it_ran(
    program: ExtractedTick, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("proofs.layers.kernel.ExtractedTick", lambda _directory: program)
    outcome = extracted_oracle("a few", cases=20, seed=1).check()
    assert outcome.verdict is Verdict.CHECKED
    assert outcome.detail == "20 random ticks decided alike"
    with applied(ON_THE_TICK[0]):
        assert extracted_oracle("many", cases=2000, seed=1).check().verdict is Verdict.REFUTED


def test_a_machine_without_ocaml_shows_the_layer_as_not_run_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    statement = Statement("Z1", "A title", "claim", "x", "here", (extracted_oracle("a few"),))
    (row,) = run([statement])
    assert row.layers[0].summary == f"kernel {NOT_RUN_HERE}"


def test_random_cases_reach_every_kind_of_decision():
    """Both stages, sets of several requests, the guard (F <= 0), full pools, empty pools."""
    decided = [(case, case.by_product()) for case in _cases(seed=29, count=1000)]
    stages = [stage for _, decisions in decided for _, _, stage, _ in decisions]
    assert min(stages.count(1), stages.count(2)) > 300
    assert sum(score <= 0 for _, ds in decided for *_, score in ds) > 100
    sets = [len(ds) - len({(g, score) for _, g, _, score in ds}) for _, ds in decided]
    assert sum(size > 0 for size in sets) > 50
    assert sum(not ds for _, ds in decided) > 20
    assert sum(case.router.horizon > 0 for case, _ in decided) > 300


def _noticed(program: ExtractedTick) -> bool:
    """Whether the product decides otherwise, or fails, on one of 2000 cases."""
    try:
        return first_disagreement(program, 2000, seed=7) is not None
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return True


def _cases(*, seed: int, count: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    return (random_case(rng) for _ in range(count))
