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
from typing import Any

import z3

from proofs.layers.linear import ANY, KnownSigns, Undo
from proofs.layers.reals import DECIDERS, Term, Truth, condition_of

SOLVER_WORK = 20_000_000
"""z3's resource limit for one question: seconds of work, where questions here take milliseconds."""


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
    ``learned`` is how to forget what the decision said about a sign.
    """

    asked: Truth
    taken: bool
    other_open: bool
    forced: bool = True
    learned: Undo = None


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
        DECIDERS.append(search)
        try:
            for name, obligation in program():
                search.check(name, condition_of(obligation))
                seen.obligations += 1
        finally:
            DECIDERS.pop()
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
        self.solver.set("rlimit", SOLVER_WORK)
        self.solver.add(*assumptions)
        self.trail: list[_Branch] = []
        self.position = 0
        self.model: Any = None
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

    def check(self, name: str, obligation: Term) -> None:
        """Show that an obligation holds on this path."""
        if obligation is True or (z3.is_expr(obligation) and z3.is_true(z3.simplify(obligation))):
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
            self.known.forget(last.learned)
            if not last.forced:
                self.solver.pop()
            if last.other_open:
                self._enter(_Branch(last.asked, not last.taken, other_open=False, forced=False))
                return True
        return False

    def _enter(self, branch: _Branch) -> None:
        asked = branch.asked
        if not branch.forced:
            self.solver.push()
            self.solver.add(asked.condition if branch.taken else z3.Not(asked.condition))
        if asked.difference is not None:
            signs = asked.signs if branch.taken else ANY - asked.signs
            branch.learned = self.known.learn(asked.difference, signs)
        self.trail.append(branch)

    def _implied_branch(self, asked: Truth) -> _Branch | None:
        """The side that the path implies without a solver, None where it needs one."""
        if asked.difference is None:
            plain = z3.simplify(asked.condition)
            constant = z3.is_true(plain) or z3.is_false(plain)
            return _Branch(asked, z3.is_true(plain), other_open=False) if constant else None
        side = self.known.answer(asked.difference, asked.signs)
        return None if side is None else _Branch(asked, side, other_open=False)

    def _fresh_branch(self, asked: Truth) -> _Branch:
        # A model of the path shows one side feasible for free; only the other needs the solver.
        condition = asked.condition
        if self.model is None and self.solver.check() == z3.sat:
            self.model = self.solver.model()
        if self.model is None:
            return _Branch(asked, taken=True, other_open=True, forced=False)
        side = bool(z3.is_true(self.model.eval(condition, model_completion=True)))
        other = self.solver.check(z3.Not(condition) if side else condition)
        forced = other == z3.unsat
        return _Branch(asked, side, other_open=not forced, forced=forced)
