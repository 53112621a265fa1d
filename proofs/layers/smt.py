"""Layer 'smt': the negation of a claim is refuted by z3 and by cvc5, independently.

Each obligation is hypotheses => claim over the reals. Both solvers must call its negation
unsatisfiable for a proof, and both satisfiable for a refutation; 'unknown' or a disagreement
leaves it open. Hypotheses that nothing satisfies would prove anything, so each obligation first
needs a model of them, which is evaluated, not trusted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cvc5
import z3

from proofs.statement import Layer, Method, Outcome, Verdict

Term = Any
"""A z3 expression; z3 ships no types."""

SECONDS = 60
ANSWERS = ("sat", "unsat", "unknown")


@dataclass(frozen=True, slots=True)
class Goal:
    """One obligation.

    Parameters
    ----------
    claim
        A z3 Boolean.
    hypotheses
        z3 Booleans; they must have a model.
    name
        Tells the obligations of one statement apart, e.g. 'G = 3'.
    """

    claim: Term
    hypotheses: Sequence[Term] = ()
    name: str = "goal"

    @property
    def negation(self) -> Term:
        """Hypotheses and not claim."""
        return z3.And(*self.hypotheses, z3.Not(self.claim))


def smt(
    scope: str,
    goals: Callable[[], Iterable[Goal]],
    *,
    general: bool = True,
    quick: bool = True,
    seconds: int = SECONDS,
) -> Layer:
    """Make a layer from obligations that together cover the scope.

    Parameters
    ----------
    scope
        For which cases they speak.
    goals
        Yields the obligations.
    general
        Whether they cover every case of the claim (``proved``) or a bounded part (``checked``).
    quick
        See ``Layer``.
    seconds
        Limit for one solver on one obligation; running into it is 'unknown'.
    """

    def check() -> Outcome:
        artifacts: list[tuple[str, str]] = []
        for goal in goals():
            text = smtlib(goal.negation)
            artifacts.append((f"{goal.name}.smt2", text))
            failure = _failure(goal, text, seconds)
            if failure is not None:
                return Outcome(failure.verdict, failure.detail, failure.witness, tuple(artifacts))
        if not artifacts:
            return Outcome(Verdict.OPEN, "no obligation: nothing was shown")
        verdict = Verdict.PROVED if general else Verdict.CHECKED
        detail = f"{len(artifacts)} obligations, z3 and cvc5 agree"
        return Outcome(verdict, detail, artifacts=tuple(artifacts))

    return Layer(Method.SMT, scope, check, quick)


def smtlib(formula: Term) -> str:
    """SMT-LIB 2 text that asks whether the formula has a model."""
    solver = z3.Solver()
    solver.add(formula)
    return "(set-logic ALL)\n" + str(solver.to_smt2())


def ask_z3(formula: Term, *, seconds: int = SECONDS) -> tuple[str, Any]:
    """z3's answer, and a model if it is 'sat' (else None); nonlinear formulas get a second try."""
    answer = "unknown"
    for solver in (z3.Solver(), z3.Tactic("qfnra-nlsat").solver()):
        solver.set("timeout", 1000 * seconds)
        solver.add(formula)
        try:
            answer = str(solver.check())
        except z3.Z3Exception:  # the nonlinear tactic refuses quantifiers and functions
            continue
        if answer != "unknown":
            return answer, solver.model() if answer == "sat" else None
    return answer, None


def ask_cvc5(text: str, *, seconds: int = SECONDS) -> str:
    """cvc5's answer to SMT-LIB text; where it is soon 'unknown', again by cylindrical coverings."""
    answer = _run_cvc5(text, max(1, seconds // 6), coverings=False)
    return _run_cvc5(text, seconds, coverings=True) if answer == "unknown" else answer


def _run_cvc5(text: str, seconds: int, *, coverings: bool) -> str:
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(1000 * seconds))
    if coverings:
        solver.setOption("nl-cov", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    symbols, answer = parser.getSymbolManager(), "unknown"
    while not (command := parser.nextCommand()).isNull():
        reply = str(command.invoke(solver, symbols)).strip()
        answer = reply if reply in ANSWERS else answer
    return answer


def _failure(goal: Goal, text: str, seconds: int) -> Outcome | None:
    vacuous = _vacuity(goal, seconds)
    if vacuous is not None:
        return Outcome(Verdict.OPEN, f"{goal.name}: {vacuous}")
    ours, model = ask_z3(goal.negation, seconds=seconds)
    theirs = ask_cvc5(text, seconds=seconds)
    if ours == theirs == "unsat":
        return None
    if ours == theirs == "sat":
        return Outcome(Verdict.REFUTED, f"{goal.name}: z3 and cvc5 agree", model_text(model))
    return Outcome(Verdict.OPEN, f"{goal.name}: z3 says {ours}, cvc5 says {theirs}")


def _vacuity(goal: Goal, seconds: int) -> str | None:
    """Say what is wrong with the hypotheses, None if a checked model satisfies them."""
    assumed = z3.And(*goal.hypotheses)
    answer, model = ask_z3(assumed, seconds=seconds)
    if answer == "unsat":
        return "the hypotheses contradict each other"
    if model is None or not z3.is_true(model.eval(assumed, model_completion=True)):
        return "no model of the hypotheses was found"
    return None


def model_text(model: Any) -> str:
    """A z3 model as one line, names sorted."""
    return ", ".join(sorted(f"{declared} = {model[declared]}" for declared in model))
