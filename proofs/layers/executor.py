"""A path-exhaustive symbolic executor: unmodified Python on symbolic reals, every path once.

A comparison of symbolic reals gives a ``Truth``, whose conversion to bool asks which branches the
path so far allows, takes one and remembers the other. ``explore`` replays the program until none
is left. Built-ins that only compare (max, min, sorted) work as they are. What the path implies by
what it compared before needs no solver; for the rest z3 is asked, limited by work and not by time,
so that answers repeat. A branch z3 cannot decide counts as possible, which is sound: it can only
add obligations.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import z3

from proofs.layers.linear import ANY, CONSTANT, KnownSigns, Number, Question, Undo, sign
from proofs.layers.reals import DECIDERS, Term, Truth, condition_of, linear_condition

SOLVER_WORK = 20_000_000
"""z3's resource limit for one question: seconds of work, where questions here take milliseconds."""

MOST_PATHS = 1_000_000


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
    ``learned`` is how to forget what the decision said about a sign, ``other_point`` a point of
    the other side, where one is known.
    """

    asked: Truth
    taken: bool
    other_open: bool
    forced: bool = True
    learned: Undo = None
    other_point: "Point | None" = None


def explore(
    program: Callable[[], Iterable[tuple[str, object]]],
    *,
    assuming: Iterable[object] = (),
    most_paths: int = MOST_PATHS,
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
        DECIDERS.append(search)
        try:
            for name, obligation in program():
                search.check(name, obligation)
                seen.obligations += 1
        finally:
            DECIDERS.pop()
        seen.paths += 1
        if not search.backtrack():
            return seen
        if seen.paths >= most_paths:
            message = f"more than {most_paths} paths"
            raise UndecidedError(message)


class Point:
    """Inputs that satisfy a path, as a solver found them.

    Parameters
    ----------
    model
        z3's.
    """

    __slots__ = ("_model", "_values")

    def __init__(self, model: Any) -> None:
        self._model = model
        self._values = {declared.name(): _exact_value(model[declared]) for declared in model}

    def satisfies(self, asked: Truth) -> bool:
        """Whether the comparison holds here."""
        if asked.question is None or None in self._values.values():
            return bool(z3.is_true(self._model.eval(asked.condition, model_completion=True)))
        key, signs = asked.question
        value = sum(factor * self._value(name) for name, factor in key)
        return bool(signs & sign(value))

    def _value(self, name: str) -> Number:
        return 1 if name == CONSTANT else self._values.get(name) or 0


class _Search:
    """Depth-first search over branches; the solver holds one level for each decision taken."""

    def __init__(self, assumptions: list[Term]) -> None:
        self.solver = z3.Solver()
        self.solver.set("rlimit", SOLVER_WORK)
        self.solver.add(*assumptions)
        self.trail: list[_Branch] = []
        self.position = 0
        self.point: Point | None = None
        self.known = KnownSigns()
        if self.solver.check() != z3.sat:
            message = "the assumptions have no model"
            raise UndecidedError(message)

    def decide(self, asked: Truth) -> bool:
        """Take a branch: the recorded one while replaying, else the first feasible one."""
        if self.position == len(self.trail):
            implied = self._implied_branch(asked)
            if implied is None:
                self._enter(self._fresh_branch(asked))
            else:
                self.trail.append(implied)
        branch = self.trail[self.position]
        self.position += 1
        return branch.taken

    def check(self, name: str, obligation: object) -> None:
        """Show that an obligation holds on this path."""
        asked = obligation.question if isinstance(obligation, Truth) else None
        if obligation is True or (asked is not None and self.known.answer(asked)):
            return
        condition = condition_of(obligation)
        if z3.is_expr(condition) and z3.is_true(z3.simplify(condition)):
            return
        answer = self.solver.check(z3.Not(condition))
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
        self.position = 0
        while self.trail:
            last = self.trail.pop()
            self.known.forget(last.learned)
            if not last.forced:
                self.solver.pop()
            if last.other_open:
                self.point = last.other_point
                self._enter(_Branch(last.asked, not last.taken, other_open=False, forced=False))
                return True
        return False

    def _enter(self, branch: _Branch) -> None:
        asked = branch.asked
        if not branch.forced:
            self.solver.push()
            self.solver.add(_side(asked, taken=branch.taken))
        if asked.question is not None:
            branch.learned = self.known.learn(_answered(asked.question, taken=branch.taken))
        self.trail.append(branch)

    def _implied_branch(self, asked: Truth) -> _Branch | None:
        """The side that the path implies without a solver, None where it needs one."""
        if asked.question is None:
            plain = z3.simplify(asked.condition)
            constant = z3.is_true(plain) or z3.is_false(plain)
            return _Branch(asked, z3.is_true(plain), other_open=False) if constant else None
        side = self.known.answer(asked.question)
        return None if side is None else _Branch(asked, side, other_open=False)

    def _fresh_branch(self, asked: Truth) -> _Branch:
        # A point of the path shows one side feasible for free; only the other needs the solver.
        if self.point is None and self.solver.check() == z3.sat:
            self.point = Point(self.solver.model())
        if self.point is None:
            return _Branch(asked, taken=True, other_open=True, forced=False)
        side = self.point.satisfies(asked)
        answer = self.solver.check(_side(asked, taken=not side))
        other = Point(self.solver.model()) if answer == z3.sat else None
        forced = answer == z3.unsat
        return _Branch(asked, side, other_open=not forced, forced=forced, other_point=other)


def _side(asked: Truth, *, taken: bool) -> Term:
    if asked.question is not None:
        return linear_condition(_answered(asked.question, taken=taken))
    return asked.condition if taken else z3.Not(asked.condition)


def _answered(question: Question, *, taken: bool) -> Question:
    key, signs = question
    return key, signs if taken else ANY - signs


def _exact_value(value: Any) -> Number | None:
    """An input's value, None where it is no rational number."""
    if not z3.is_rational_value(value):
        return None
    whole, parts = value.numerator_as_long(), value.denominator_as_long()
    return whole if parts == 1 else Fraction(whole, parts)
