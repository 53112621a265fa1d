"""A path-exhaustive symbolic executor: unmodified Python on symbolic reals, every path once.

``Real`` overloads arithmetic; a comparison gives a ``Truth``, whose conversion to bool asks z3
which branches the path so far allows, takes one and remembers the other. ``explore`` replays the
program until none is left. Built-ins that only compare (max, min, sorted) work as they are.
A branch z3 cannot decide counts as possible, which is sound: it can only add obligations.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import z3

Term = Any
"""A z3 expression; z3 ships no types."""

SOLVER_MILLISECONDS = 20_000


class Truth:
    """The symbolic outcome of a comparison; as a bool it takes a branch."""

    __slots__ = ("condition",)

    def __init__(self, condition: Term) -> None:
        self.condition = condition

    def __bool__(self) -> bool:
        return _current().decide(self.condition)


class Real:
    """A symbolic real number.

    Parameters
    ----------
    term
        A name, or a z3 real expression.
    """

    __slots__ = ("term",)
    __hash__ = None  # type: ignore[assignment]  # equality branches, so it cannot be a key

    def __init__(self, term: str | Term) -> None:
        self.term = z3.Real(term) if isinstance(term, str) else term

    def __repr__(self) -> str:
        return str(z3.simplify(self.term))

    def __neg__(self) -> "Real":
        return Real(-self.term)

    def __add__(self, other: object) -> "Real":
        return Real(self.term + term_of(other))

    def __radd__(self, other: object) -> "Real":
        return Real(term_of(other) + self.term)

    def __sub__(self, other: object) -> "Real":
        return Real(self.term - term_of(other))

    def __rsub__(self, other: object) -> "Real":
        return Real(term_of(other) - self.term)

    def __mul__(self, other: object) -> "Real":
        return Real(self.term * term_of(other))

    def __rmul__(self, other: object) -> "Real":
        return Real(term_of(other) * self.term)

    def __floordiv__(self, other: int) -> "Real":
        return Real(z3.ToReal(z3.ToInt(self.term / term_of(other))))

    def __abs__(self) -> "Real":
        return Real(z3.If(self.term >= 0, self.term, -self.term))

    def __lt__(self, other: object) -> Truth:
        return Truth(self.term < term_of(other))

    def __le__(self, other: object) -> Truth:
        return Truth(self.term <= term_of(other))

    def __gt__(self, other: object) -> Truth:
        return Truth(self.term > term_of(other))

    def __ge__(self, other: object) -> Truth:
        return Truth(self.term >= term_of(other))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # symbolic, not bool
        return Truth(self.term == term_of(other))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # symbolic, not bool
        return Truth(self.term != term_of(other))


def condition_of(value: object) -> Term:
    """The z3 Boolean of a symbolic comparison, without taking a branch; others unchanged."""
    return value.condition if isinstance(value, Truth) else value


def both(*parts: object) -> Truth:
    """Conjunction, without taking a branch."""
    return Truth(z3.And(*[condition_of(part) for part in parts]))


def either(*parts: object) -> Truth:
    """Disjunction, without taking a branch."""
    return Truth(z3.Or(*[condition_of(part) for part in parts]))


def iff(first: object, second: object) -> Truth:
    """Equivalence, without taking a branch."""
    return Truth(condition_of(first) == condition_of(second))


def named(prefix: str, entries: int) -> list[Real]:
    """Symbolic reals prefix0, prefix1, ..."""
    return [Real(f"{prefix}{index}") for index in range(entries)]


class FalsifiedError(Exception):
    """An obligation fails on some path; ``model`` is a z3 model of inputs that show it."""

    def __init__(self, name: str, model: Any) -> None:
        super().__init__(name)
        self.name = name
        self.model = model


class UndecidedError(Exception):
    """z3 could not decide an obligation, or a path limit was hit."""


@dataclass(slots=True)
class Exploration:
    """What was covered: feasible paths, and obligations checked on them."""

    paths: int = 0
    obligations: int = 0


@dataclass(slots=True)
class _Branch:
    """One decision: which side was taken, and whether the other is still to be explored.

    A forced one, which the path so far implies, adds nothing to the path and is not asserted.
    """

    condition: Term
    taken: bool
    other_open: bool
    forced: bool = True


def term_of(value: object) -> Term:
    """A z3 term for a symbolic or an exact number.

    Raises
    ------
    TypeError
        For anything else, a float included: floats are not exact.
    """
    if isinstance(value, Real):
        return value.term
    if isinstance(value, int):
        return z3.RealVal(int(value))
    if isinstance(value, Fraction):
        return z3.Q(value.numerator, value.denominator)
    message = f"expected an exact number, got {type(value).__name__}"
    raise TypeError(message)


def explore(
    program: Callable[[], Iterable[tuple[str, object]]],
    *,
    assuming: Iterable[object] = (),
    most_paths: int = 1_000_000,
) -> Exploration:
    """Run a program on every feasible path and check its obligations there.

    Parameters
    ----------
    program
        Builds its inputs, calls product code, and yields pairs (name, obligation): symbolic
        comparisons, z3 Booleans, or Python bools where the path has decided already.
    assuming
        Comparisons or z3 Booleans about the inputs.
    most_paths
        Refuse to go on beyond this number.

    Raises
    ------
    FalsifiedError
        If an obligation fails.
    UndecidedError
        If the assumptions have no model, an obligation is undecided, or there are more paths.
    """
    search, seen = _Search([condition_of(part) for part in assuming]), Exploration()
    while True:
        _SEARCHES.append(search)
        try:
            for name, obligation in program():
                search.check(name, condition_of(obligation))
                seen.obligations += 1
        finally:
            _SEARCHES.pop()
        seen.paths += 1
        if not search.backtrack():
            return seen
        if seen.paths >= most_paths:
            message = f"more than {most_paths} paths"
            raise UndecidedError(message)


class _Search:
    """Depth-first search over branches; the solver holds one level for each decision taken."""

    def __init__(self, assumptions: list[Term]) -> None:
        self.solver = z3.Solver()
        self.solver.set("timeout", SOLVER_MILLISECONDS)
        self.solver.add(*assumptions)
        self.trail: list[_Branch] = []
        self.position = 0
        self.model: Any = None
        if self.solver.check() != z3.sat:
            message = "the assumptions have no model"
            raise UndecidedError(message)

    def decide(self, condition: Term) -> bool:
        """Take a branch: the recorded one while replaying, else the first feasible one."""
        if self.position == len(self.trail):
            self._enter(self._fresh_branch(z3.simplify(condition)))
        branch = self.trail[self.position]
        self.position += 1
        return branch.taken

    def check(self, name: str, obligation: Term) -> None:
        """Show that an obligation holds on this path."""
        if obligation is True:
            return
        answer = self.solver.check(z3.Not(obligation))
        if answer == z3.sat:
            raise FalsifiedError(name, self.solver.model())
        if answer != z3.unsat:
            message = f"{name}: undecided"
            raise UndecidedError(message)

    def backtrack(self) -> bool:
        """Go back to the last decision whose other side is open and take it; False if none is."""
        if self.position != len(self.trail):
            message = "the program took other decisions when it was replayed"
            raise RuntimeError(message)
        self.position, self.model = 0, None
        while self.trail:
            last = self.trail.pop()
            if not last.forced:
                self.solver.pop()
            if last.other_open:
                self._enter(
                    _Branch(last.condition, taken=not last.taken, other_open=False, forced=False)
                )
                return True
        return False

    def _enter(self, branch: _Branch) -> None:
        if not branch.forced:
            self.solver.push()
            self.solver.add(branch.condition if branch.taken else z3.Not(branch.condition))
        self.trail.append(branch)

    def _fresh_branch(self, condition: Term) -> _Branch:
        if z3.is_true(condition) or z3.is_false(condition):
            return _Branch(condition, taken=bool(z3.is_true(condition)), other_open=False)
        # A model of the path shows one side feasible for free; only the other needs the solver.
        if self.model is None and self.solver.check() == z3.sat:
            self.model = self.solver.model()
        if self.model is None:
            return _Branch(condition, taken=True, other_open=True, forced=False)
        side = bool(z3.is_true(self.model.eval(condition, model_completion=True)))
        other = self.solver.check(z3.Not(condition) if side else condition)
        if other == z3.unsat:
            return _Branch(condition, taken=side, other_open=False)
        return _Branch(condition, taken=side, other_open=True, forced=False)


_SEARCHES: list[_Search] = []


def _current() -> _Search:
    if not _SEARCHES:
        message = "a symbolic comparison outside explore()"
        raise RuntimeError(message)
    return _SEARCHES[-1]
