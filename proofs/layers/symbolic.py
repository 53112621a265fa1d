"""Layer 'symbolic': identities and signs by regions, with sympy.

A claim with branches is split into regions on which every branch is decided: where Delta exceeds
the margin, Delta = m + t with t > 0; where it does not, Delta = m - s. Assumptions live on the
symbols, so the product's own functions run on them, and what is left is a polynomial identity
(decided by expansion) or the sign of a sum of non-negative terms. ``simplify`` is a last resort,
never the argument.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Literal

import sympy as sp

from proofs.statement import Layer, Method, Outcome, Verdict

SAMPLES = 400


@dataclass(frozen=True, slots=True)
class Obligation:
    """One thing to show on one region.

    Parameters
    ----------
    region
        What is assumed, in words.
    expression
        A sympy expression in symbols that carry the region's assumptions.
    relation
        What the expression must be.
    """

    region: str
    expression: Any
    relation: Literal["= 0", ">= 0", "> 0"]


def zero(region: str, expression: Any) -> Obligation:
    """The expression vanishes on the region."""
    return Obligation(region, sp.sympify(expression), "= 0")


def nonnegative(region: str, expression: Any) -> Obligation:
    """The expression is >= 0 on the region."""
    return Obligation(region, sp.sympify(expression), ">= 0")


def positive(region: str, expression: Any) -> Obligation:
    """The expression is > 0 on the region."""
    return Obligation(region, sp.sympify(expression), "> 0")


def symbolic(
    scope: str,
    regions: Callable[[], Iterable[Obligation]],
    *,
    general: bool = True,
    quick: bool = True,
) -> Layer:
    """Make a layer from obligations that together cover the claim.

    Parameters
    ----------
    scope
        For which cases the regions speak.
    regions
        Yields the obligations.
    general
        Whether the regions cover every case of the claim (``proved``) or a bounded part.
    quick
        See ``Layer``.
    """

    def check() -> Outcome:
        count = 0
        for obligation in regions():
            count += 1
            failure = _failure(obligation)
            if failure is not None:
                return failure
        if count == 0:
            return Outcome(Verdict.OPEN, "no region: nothing was shown")
        verdict = Verdict.PROVED if general else Verdict.CHECKED
        return Outcome(verdict, f"{count} regions and identities")

    return Layer(Method.SYMBOLIC, scope, check, quick)


def _failure(obligation: Obligation) -> Outcome | None:
    expression = sp.expand(obligation.expression)
    if _holds(expression, obligation.relation):
        return None
    text = f"{obligation.region}: {obligation.expression} {obligation.relation}"
    point = _counterexample(expression, obligation.relation)
    if point is not None:
        witness = ", ".join(f"{symbol} = {value}" for symbol, value in point.items())
        return Outcome(Verdict.REFUTED, f"fails: {text}", witness)
    return Outcome(Verdict.OPEN, f"not shown: {text}")


def _holds(expression: Any, relation: str) -> bool:
    if relation == "= 0":
        return bool(expression == 0) or bool(sp.simplify(expression) == 0)
    wanted = "is_positive" if relation == "> 0" else "is_nonnegative"
    return any(getattr(form, wanted) is True for form in (expression, sp.factor(expression)))


def _counterexample(expression: Any, relation: str) -> dict[Any, Any] | None:
    """A small positive point that violates the relation, None if a grid has none."""
    symbols = sorted(expression.free_symbols, key=str)
    values = [sp.Integer(1), sp.Integer(2), sp.Integer(3), sp.Rational(1, 2), sp.Integer(7)]
    usable = [[v for v in values if v.is_integer or not s.is_integer] for s in symbols]
    for point in islice(product(*usable), SAMPLES):
        assignment = dict(zip(symbols, point, strict=True))
        value = expression.subs(assignment)
        if value.is_number and not _satisfies(value, relation):
            return assignment
    return None


def _satisfies(value: Any, relation: str) -> bool:
    if relation == "= 0":
        return bool(sp.simplify(value) == 0)
    return bool(value > 0) if relation == "> 0" else bool(value >= 0)
