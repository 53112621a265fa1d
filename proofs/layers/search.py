"""Layer 'search': the product's own functions on every case of a finite scope, or on many.

A predicate gets one case and says True (holds), False (a counterexample) or None (the hypotheses
are not met). A search in which no case met the hypotheses shows nothing and stays open.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from proofs.statement import Layer, Method, Outcome, Verdict, always

Predicate = Callable[..., bool | None]


def exhaustive(
    scope: str,
    cases: Callable[[], Iterable[tuple[Any, ...]]],
    holds: Predicate,
    *,
    general: bool = False,
    quick: bool = True,
    available: Callable[[], bool] = always,
) -> Layer:
    """Try every case, smallest first: the first counterexample is the smallest.

    Parameters
    ----------
    scope
        Which cases, in words.
    cases
        Yields argument tuples.
    holds
        The claim on one case.
    general
        Whether the finite scope is all the claim speaks of.
    quick, available
        See ``Layer``.
    """

    def check() -> Outcome:
        met = 0
        for case in cases():
            result = holds(*case)
            if result is False:
                return Outcome(Verdict.REFUTED, "counterexample found", repr(case))
            met += result is True
        if met == 0:
            return Outcome(Verdict.OPEN, "no case meets the hypotheses")
        return Outcome(Verdict.PROVED if general else Verdict.CHECKED, f"{met} cases")

    return Layer(Method.SEARCH, scope, check, quick, available)


def drawn(
    scope: str,
    draw: Callable[[np.random.Generator], tuple[Any, ...]],
    holds: Predicate,
    *,
    cases: int,
    seed: int,
    quick: bool = True,
    available: Callable[[], bool] = always,
) -> Layer:
    """Try a stated number of random cases, drawn from one seeded generator.

    Parameters
    ----------
    scope
        From which cases they are drawn.
    draw, cases, seed
        Makes one case; how many, and the generator's seed.
    holds
        The claim on one case.
    quick, available
        See ``Layer``.
    """

    def every() -> Iterator[tuple[Any, ...]]:
        rng = np.random.default_rng(seed)
        return (draw(rng) for _ in range(cases))

    return exhaustive(scope, every, holds, quick=quick, available=available)


def sampled(
    scope: str,
    strategy: SearchStrategy[tuple[Any, ...]],
    holds: Predicate,
    *,
    examples: int = 300,
    quick: bool = True,
) -> Layer:
    """Try many generated cases with a fixed seed; a counterexample is shrunk before it is shown."""

    def check() -> Outcome:
        met, failing = 0, None

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def run(case: tuple[Any, ...]) -> None:
            nonlocal met, failing
            result = holds(*case)
            if result is False:
                failing = case
                raise _CounterexampleError
            met += result is True

        try:
            run()
        except _CounterexampleError:
            return Outcome(Verdict.REFUTED, "counterexample found and shrunk", repr(failing))
        if met == 0:
            return Outcome(Verdict.OPEN, "no case meets the hypotheses")
        return Outcome(Verdict.CHECKED, f"{met} generated cases")

    return Layer(Method.SEARCH, scope, check, quick)


def smallest_counterexample(
    scope: str,
    cases: Callable[[], Iterable[tuple[Any, ...]]],
    holds: Predicate,
    *,
    expected: tuple[Any, ...],
    quick: bool = True,
) -> Layer:
    """Refute a claim on the product: of the ordered cases, exactly ``expected`` must fail first."""

    def check() -> Outcome:
        tried = 0
        for case in cases():
            tried += 1
            if holds(*case) is False:
                return _named(case, expected, f"first of {tried} cases that fails")
        return Outcome(Verdict.CHECKED, f"{tried} cases and no counterexample")

    return Layer(Method.SEARCH, scope, check, quick)


def replayed(scope: str, holds: Predicate, *, case: tuple[Any, ...], quick: bool = True) -> Layer:
    """Refute a claim by one named case, replayed on the product."""

    def check() -> Outcome:
        if holds(*case) is False:
            return Outcome(Verdict.REFUTED, "replayed on the product's own code", repr(case))
        return Outcome(Verdict.OPEN, "the named counterexample is none", repr(case))

    return Layer(Method.SEARCH, scope, check, quick)


def by_sum(entries: int, *, low: int, high: int) -> Iterator[tuple[int, ...]]:
    """Integer tuples with entries in low .. high, ordered by sum, then lexicographically."""
    for total in range(entries * low, entries * high + 1):
        yield from _with_sum(entries, total, low, high)


def _with_sum(entries: int, total: int, low: int, high: int) -> Iterator[tuple[int, ...]]:
    if entries == 0:
        if total == 0:
            yield ()
        return
    rest = entries - 1
    for value in range(max(low, total - rest * high), min(high, total - rest * low) + 1):
        for others in _with_sum(rest, total - value, low, high):
            yield (value, *others)


def _named(case: tuple[Any, ...], expected: tuple[Any, ...], how: str) -> Outcome:
    if case == expected:
        return Outcome(Verdict.REFUTED, how, repr(case))
    return Outcome(Verdict.OPEN, f"the smallest is not the named {expected!r}", repr(case))


class _CounterexampleError(Exception):
    """Leaves hypothesis with the failing case."""
