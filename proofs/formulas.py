"""The statements' own formulas as z3 terms, written apart from the product's code.

    (x)_+,  M = max_g L_g,  I = G*M - sum_g L_g,  F = x - G*(x - m)_+
    F_H = A*x - sum_h w_h*(x - m_h)_+

The execution layer shows that the product computes these; the smt layer reasons about them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import z3

Term = Any
"""A z3 expression; z3 ships no types."""


def real(name: str) -> Term:
    """One real variable."""
    return z3.Real(name)


def reals(names: str) -> list[Term]:
    """Real variables, names separated by blanks."""
    return [z3.Real(name) for name in names.split()]


def vector(prefix: str, entries: int) -> list[Term]:
    """Real variables prefix0, prefix1, ..."""
    return [z3.Real(f"{prefix}{index}") for index in range(entries)]


def total(terms: Iterable[Term]) -> Term:
    """Sum of one or more terms."""
    return z3.Sum(list(terms))


def positive_part_of(term: Term) -> Term:
    """(x)_+."""
    return z3.If(term > 0, term, z3.RealVal(0))


def absolute(term: Term) -> Term:
    """|x|."""
    return z3.If(term >= 0, term, -term)


def larger(first: Term, second: Term) -> Term:
    """max(a, b)."""
    return z3.If(first >= second, first, second)


def largest(terms: Sequence[Term]) -> Term:
    """Maximum of one or more terms."""
    result = terms[0]
    for term in terms[1:]:
        result = larger(result, term)
    return result


def smallest(terms: Sequence[Term]) -> Term:
    """Minimum of one or more terms."""
    return -largest([-term for term in terms])


def imbalance_of(loads: Sequence[Term]) -> Term:
    """I = G*M - sum L."""
    return len(loads) * largest(loads) - total(loads)


def score_of(replicas: Term, margin: Term, delta: Term) -> Term:
    """F = x - G*(x - m)_+."""
    return delta - replicas * positive_part_of(delta - margin)


def window_score(reward: Term, prices: Sequence[Term], window: Sequence[Term], delta: Term) -> Term:
    """F_H = A*x - sum_h w_h*(x - m_h)_+, one price and one margin for each step."""
    overflow = [w * positive_part_of(delta - m) for w, m in zip(prices, window, strict=True)]
    return reward * delta - total(overflow)


def with_added(loads: Sequence[Term], replica: int, delta: Term) -> list[Term]:
    """Loads after delta has been added to one replica."""
    return [load + delta if g == replica else load for g, load in enumerate(loads)]
