"""Symbolic reals and comparisons: arithmetic as usual, and a branch where one is used as a bool.

A real is a linear form of its inputs as long as it can be (``proofs.layers.linear``), else a z3
expression; z3's expression of a linear one is only built when a solver is asked about it.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Protocol

import z3

from proofs.layers.linear import (
    ANY,
    CONSTANT,
    KEYS_KEPT,
    NEGATIVE,
    POSITIVE,
    ZERO,
    Form,
    Number,
    Question,
    combined,
    constant,
    constant_of,
    question,
    scaled,
)

Term = Any
"""A z3 expression; z3 ships no types."""


class Decider(Protocol):
    """Takes the branches of the program that is being explored."""

    def decide(self, asked: "Truth") -> bool:
        """Say which side is taken."""


DECIDERS: list[Decider] = []
"""The last one is asked."""


class Truth:
    """The symbolic outcome of a comparison; as a bool it takes a branch.

    Parameters
    ----------
    condition
        Builds the z3 Boolean.
    question
        Where both sides are linear: the same as a question about the sign of their difference.
    """

    __slots__ = ("_build", "_condition", "question")

    def __init__(self, condition: Callable[[], Term], question: Question | None = None) -> None:
        self._build, self._condition = condition, None
        self.question = question

    def __bool__(self) -> bool:
        if not DECIDERS:
            message = "a symbolic comparison outside explore()"
            raise RuntimeError(message)
        return DECIDERS[-1].decide(self)

    @property
    def condition(self) -> Term:
        """The z3 Boolean."""
        if self._condition is None:
            self._condition = self._build()
        return self._condition


class Real:
    """A symbolic real number.

    Parameters
    ----------
    value
        A name, a linear form, or a z3 real expression.
    """

    __slots__ = ("_term", "form")
    __hash__ = None  # type: ignore[assignment]  # equality branches, so it cannot be a key

    def __init__(self, value: str | Form | Term) -> None:
        self._term: Term = None
        self.form: Form | None = None
        if isinstance(value, str):
            self.form = {value: 1}
        elif isinstance(value, dict):
            self.form = value
        else:
            self._term = value

    @property
    def term(self) -> Term:
        """The z3 expression."""
        if self._term is None:
            self._term = _linear_term(self.form or {})
        return self._term

    def __repr__(self) -> str:
        return str(z3.simplify(self.term))

    def __neg__(self) -> "Real":
        return self._times(-1)

    def __add__(self, other: object) -> "Real":
        mine, theirs = self.form, form_of(other)
        if mine is not None and theirs is not None:
            return Real(combined(mine, theirs, 1))
        return Real(self.term + term_of(other))

    def __radd__(self, other: object) -> "Real":
        return self + other

    def __sub__(self, other: object) -> "Real":
        mine, theirs = self.form, form_of(other)
        if mine is not None and theirs is not None:
            return Real(combined(mine, theirs, -1))
        return Real(self.term - term_of(other))

    def __rsub__(self, other: object) -> "Real":
        return -self + other

    def __mul__(self, other: object) -> "Real":
        theirs = form_of(other)
        factor = None if theirs is None else constant_of(theirs)
        if factor is not None:
            return self._times(factor)
        own = None if self.form is None else constant_of(self.form)
        if own is not None and theirs is not None:
            return Real(scaled(theirs, own))
        return Real(self.term * term_of(other))

    def __rmul__(self, other: object) -> "Real":
        return self * other

    def __floordiv__(self, other: int) -> "Real":
        return Real(z3.ToReal(z3.ToInt(self.term / term_of(other))))

    def __abs__(self) -> "Real":
        return Real(z3.If(self.term >= 0, self.term, -self.term))

    def __lt__(self, other: object) -> Truth:
        return self._compared(other, NEGATIVE)

    def __le__(self, other: object) -> Truth:
        return self._compared(other, NEGATIVE | ZERO)

    def __gt__(self, other: object) -> Truth:
        return self._compared(other, POSITIVE)

    def __ge__(self, other: object) -> Truth:
        return self._compared(other, POSITIVE | ZERO)

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # symbolic, not bool
        return self._compared(other, ZERO)

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # symbolic, not bool
        return self._compared(other, NEGATIVE | POSITIVE)

    def _times(self, factor: Number) -> "Real":
        if self.form is not None:
            return Real(scaled(self.form, factor))
        return Real(term_of(factor) * self.term)

    def _compared(self, other: object, signs: int) -> Truth:
        mine, theirs = self.form, form_of(other)
        if mine is not None and theirs is not None:
            asked = question(combined(mine, theirs, -1), signs)
            return Truth(lambda: linear_condition(asked), asked)
        return Truth(lambda: _sign_is(self.term - term_of(other), signs))


def condition_of(value: object) -> Term:
    """The z3 Boolean of a symbolic comparison, without taking a branch; others unchanged."""
    return value.condition if isinstance(value, Truth) else value


@lru_cache(maxsize=KEYS_KEPT)
def linear_condition(question: Question) -> Term:
    """The z3 Boolean of a question about a linear form's sign."""
    key, signs = question
    if signs == ANY or not key:
        return z3.BoolVal(signs == ANY or bool(signs & ZERO))
    return _sign_is(_linear_term(dict(key)), signs)


def both(*parts: object) -> Truth:
    """Conjunction, without taking a branch."""
    return Truth(lambda: z3.And(*[condition_of(part) for part in parts]))


def either(*parts: object) -> Truth:
    """Disjunction, without taking a branch."""
    return Truth(lambda: z3.Or(*[condition_of(part) for part in parts]))


def iff(first: object, second: object) -> Truth:
    """Equivalence, without taking a branch."""
    return Truth(lambda: condition_of(first) == condition_of(second))


def named(prefix: str, entries: int) -> list[Real]:
    """Symbolic reals prefix0, prefix1, ..."""
    return [Real(f"{prefix}{index}") for index in range(entries)]


def term_of(value: object) -> Term:
    """A z3 term for a symbolic or an exact number.

    Raises
    ------
    TypeError
        For anything else, a float included: floats are not exact.
    """
    return value.term if isinstance(value, Real) else _number(_exact(value))


def form_of(value: object) -> Form | None:
    """The linear form of a symbolic or an exact number, None of a symbolic one without.

    Raises
    ------
    TypeError
        As ``term_of``.
    """
    return value.form if isinstance(value, Real) else constant(_exact(value))


def _exact(value: object) -> Number:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Fraction):
        return value
    message = f"expected an exact number, got {type(value).__name__}"
    raise TypeError(message)


def _number(value: Number) -> Term:
    return z3.RealVal(value) if isinstance(value, int) else z3.Q(value.numerator, value.denominator)


@cache
def _variable(name: str) -> Term:
    return z3.RealVal(1) if name == CONSTANT else z3.Real(name)


def _linear_term(form: Form) -> Term:
    parts = [_number(value) * _variable(name) for name, value in form.items()]
    return z3.Sum(parts) if parts else z3.RealVal(0)


def _sign_is(term: Term, signs: int) -> Term:
    relations: dict[int, Callable[[], Term]] = {
        NEGATIVE: lambda: term < 0,
        NEGATIVE | ZERO: lambda: term <= 0,
        ZERO: lambda: term == 0,
        ZERO | POSITIVE: lambda: term >= 0,
        POSITIVE: lambda: term > 0,
        NEGATIVE | POSITIVE: lambda: term != 0,
    }
    return relations[signs]()
