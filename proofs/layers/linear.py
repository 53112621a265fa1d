"""Linear forms with exact coefficients, and which signs they can still have on one path.

Loads, prompts, margins and sums of them are linear in a program's inputs, so they are added as
dictionaries and no solver's expression is built. A comparison of a and b asks for the sign of
a - b. Divided by its content, with a positive first coefficient, equal questions are equal keys;
so what a path has learned of one form answers every <, <=, ==, !=, >=, > of it, of its multiples
and of its mirror image, without a solver. Most comparisons of a program repeat an earlier one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

Number = int | Fraction
Form = Mapping[str, Number]
"""Coefficients by variable, none of them 0; the constant's name is the empty text."""
Key = tuple[tuple[str, int], ...]

CONSTANT = ""
NEGATIVE, ZERO, POSITIVE = 1, 2, 4
ANY = NEGATIVE | ZERO | POSITIVE
KEYS_KEPT = 1 << 18

Question = tuple[Key, int]
"""A form's key, empty for a constant, and the signs asked for."""

Undo = Question | None
"""What to put back when a decision is taken back: a key and the signs it had."""


@dataclass(slots=True)
class KnownSigns:
    """Signs that linear forms can still have on the present path."""

    possible: dict[Key, int] = field(default_factory=dict)

    def answer(self, question: Question) -> bool | None:
        """Whether the form has one of these signs, None where that is not known."""
        key, asked = question
        left = self.possible.get(key, ANY) if key else ZERO
        if not left & asked:
            return False
        return True if not left & ~asked else None

    def learn(self, question: Question) -> Undo:
        """Keep that the form has one of these signs; return how to forget it again."""
        key, asked = question
        before = self.possible.get(key, ANY)
        self.possible[key] = before & asked
        return key, before

    def forget(self, undo: Undo) -> None:
        """Put back what ``learn`` changed."""
        if undo is not None:
            key, before = undo
            self.possible[key] = before


def constant(value: Number) -> Form:
    """The form without variables."""
    return {CONSTANT: value} if value else {}


def combined(first: Form, second: Form, factor: Number) -> Form:
    """First + factor*second."""
    result = dict(first)
    for name, value in second.items():
        new = result.get(name, 0) + factor * value
        if new:
            result[name] = new
        else:
            result.pop(name, None)
    return result


def scaled(form: Form, factor: Number) -> Form:
    """Factor*form."""
    return {name: factor * value for name, value in form.items()} if factor else {}


def constant_of(form: Form) -> Number | None:
    """The value of a form without variables, None with some."""
    if any(name != CONSTANT for name in form):
        return None
    return form.get(CONSTANT, 0)


def question(form: Form, signs: int) -> Question:
    """Ask whether a form has one of these signs; equal questions are equal.

    A constant's answer is put into the signs: the question is whether zero has one of them.
    """
    key, turned = _key(tuple(sorted(form.items())))
    if not key:
        return (), ANY if sign(form.get(CONSTANT, 0)) & signs else ANY - ZERO
    return key, _mirror(signs) if turned else signs


def sign(value: Number) -> int:
    """The sign of an exact number."""
    return POSITIVE if value > 0 else NEGATIVE if value < 0 else ZERO


@lru_cache(maxsize=KEYS_KEPT)
def _key(items: tuple[tuple[str, Number], ...]) -> tuple[Key, bool]:
    """The form over its content, first coefficient positive; whether that turned its sign."""
    first = next((value for name, value in items if name != CONSTANT), None)
    if first is None:
        return (), False
    whole = lcm(*[value.denominator for _, value in items])
    content = gcd(*[int(value * whole) for _, value in items])
    turn = content if first > 0 else -content
    return tuple((name, int(value * whole) // turn) for name, value in items), first < 0


def _mirror(signs: int) -> int:
    kept = signs & ZERO
    kept |= POSITIVE if signs & NEGATIVE else 0
    return kept | (NEGATIVE if signs & POSITIVE else 0)
