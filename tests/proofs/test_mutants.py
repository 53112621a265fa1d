"""A change to the core breaks a proof: every mutant is killed by execution or by search."""

import inspect
from functools import cache

import pytest

from brtheory.errors import BrtheoryError
from proofs.binding import reached
from proofs.register import STATEMENTS
from proofs.statement import Layer, Method, Statement, Verdict, agrees
from tests.proofs.mutants import MUTANTS, Mutant, applied

ON_THE_PRODUCT = (Method.SEARCH, Method.EXECUTION)
SCORING = ("positive_part", "f_score", "one_step_weights", "imbalance", "margins", "peak")


@cache
def _code_of(identifier: str) -> frozenset[str]:
    """Names of the production functions and classes a statement rests on."""
    (statement,) = (statement for statement in STATEMENTS if statement.id == identifier)
    return frozenset(f"{c.__module__}.{c.__qualname__}" for c in reached(statement.about))


def _owner(mutant: Mutant) -> str:
    """The function, or the class it is a method of."""
    return f"{mutant.function.__module__}.{mutant.function.__qualname__.split('.')[0]}"


def _far(statement: Statement, mutant: Mutant) -> tuple[bool, bool]:
    """Later are statements that only rest on what was changed, and do not speak of it."""
    spoken_of = {f"{code.__module__}.{code.__qualname__}" for code in statement.about}
    return statement.id not in {"T1", "T28"}, _owner(mutant) not in spoken_of


def _kills(layer: Layer, expected: Verdict) -> bool:
    """Whether the layer notices; a crash of the product is noticed too."""
    try:
        return not agrees(layer.check().verdict, expected=expected)
    except (ArithmeticError, AssertionError, BrtheoryError, LookupError, TypeError, ValueError):
        return True


def _killers(mutant: Mutant, methods: tuple[Method, ...]) -> str | None:
    """The first quick layer that notices, cheap methods and near statements first."""
    about = [statement for statement in STATEMENTS if _owner(mutant) in _code_of(statement.id)]
    about.sort(key=lambda statement: _far(statement, mutant))
    for method in methods:
        for statement in about:
            for layer in statement.layers:
                fits = layer.method is method and layer.quick
                if fits and _kills(layer, statement.expected):
                    return f"{statement.id} {layer.key}"
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_killed(mutant: Mutant):
    with applied(mutant):
        assert _killers(mutant, ON_THE_PRODUCT) is not None


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.function.__name__ in SCORING], ids=lambda mutant: mutant.name
)
def test_execution_alone_kills_every_mutant_of_the_score(mutant: Mutant):
    with applied(mutant):
        assert _killers(mutant, (Method.EXECUTION,)) is not None


def test_mutants_differ_from_the_product_and_from_each_other():
    codes = set()
    for mutant in MUTANTS:
        original = mutant.function.__code__
        with applied(mutant):
            changed = mutant.function.__code__
        assert mutant.function.__code__ is original
        assert (changed.co_code, changed.co_consts) != (original.co_code, original.co_consts)
        codes.add((mutant.function.__qualname__, mutant.new, mutant.old))
    assert len(codes) == len(MUTANTS) >= 15


def test_the_unchanged_core_is_not_killed():
    """The killing layers agree on the product as it is, so a kill is the mutant's doing."""
    for statement in (s for s in STATEMENTS if s.id in {"T1", "T7", "T9", "T27", "T33"}):
        for layer in statement.layers:
            if layer.method is Method.SEARCH:
                assert not _kills(layer, statement.expected), layer.key
    assert inspect.isfunction(MUTANTS[0].function)
