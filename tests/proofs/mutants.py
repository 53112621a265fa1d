"""Mutants of the core: one small change to one production function, made in place."""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from brtheory.core import fscore, imbalance, subsets
from brtheory.core.tick import TickLedger
from brtheory.offline.evaluate import sum_of_peaks
from brtheory.prediction.contribution import contribution
from brtheory.routers import reference
from brtheory.routers.reference import BalanceRoute


@dataclass(frozen=True)
class Mutant:
    """One change: ``old`` occurs exactly once in the function's source and becomes ``new``."""

    function: Callable[..., Any]
    old: str
    new: str

    @property
    def name(self) -> str:
        """For test ids."""
        return f"{self.function.__qualname__}: {self.old} -> {self.new}"


MUTANTS = (
    Mutant(fscore.positive_part, "if value > 0", "if value > 1"),
    Mutant(fscore.positive_part, "if value > 0", "if value < 0"),
    Mutant(fscore.positive_part, "else 0", "else value"),
    Mutant(fscore.f_score, "delta - overflow", "delta + overflow"),
    Mutant(fscore.f_score, "positive_part(delta - margin)", "positive_part(margin - delta)"),
    Mutant(fscore.f_score, "weight * positive_part", "positive_part"),
    Mutant(fscore.f_score, "weights.reward * delta", "delta"),
    Mutant(fscore.one_step_weights, "(replicas,)", "(replicas - 1,)"),
    Mutant(fscore.one_step_weights, "reward=1", "reward=2"),
    Mutant(fscore.horizon_weights, "discount**h", "discount ** (h + 1)"),
    Mutant(fscore.horizon_weights, "* sum(discounts)", "* len(discounts)"),
    Mutant(imbalance.imbalance, "len(loads) * peak", "(len(loads) - 1) * peak"),
    Mutant(imbalance.imbalance, "- sum(loads)", "- len(loads) * min(loads)"),
    Mutant(imbalance.margins, "top - load", "load - top"),
    Mutant(imbalance.peak, "max(loads)", "loads[0]"),
    Mutant(TickLedger.__init__, "max(column)", "column[0]"),
    Mutant(TickLedger.margin, "self.envelope[0] - ", "-"),
    Mutant(TickLedger.margins, "top - load", "top"),
    Mutant(TickLedger.admit, "load + delta", "load"),
    Mutant(TickLedger.admit, "max(top, load)", "top"),
    Mutant(TickLedger.admit, "-= len(requests)", "-= 1"),
    Mutant(
        BalanceRoute._next_replica,
        "(ledger.cap[g], ledger.margin(g))",
        "(ledger.margin(g), ledger.cap[g])",
    ),
    Mutant(
        BalanceRoute._next_replica,
        "(ledger.margin(g), ledger.cap[g])",
        "(ledger.cap[g], ledger.margin(g))",
    ),
    Mutant(
        BalanceRoute._next_replica, "range(ledger.replicas)", "reversed(range(ledger.replicas))"
    ),
    Mutant(BalanceRoute._best_single, "(choice.score, choice.delta)", "choice.score"),
    Mutant(BalanceRoute._best_single, "(choice.score, choice.delta)", "choice.delta"),
    Mutant(BalanceRoute._best_subset, "if best.score > 0", "if best.score >= 0"),
    Mutant(BalanceRoute._best_subset, "if best.score > 0", "if best.score > -99"),
    Mutant(BalanceRoute._best_subset, "ledger.cap[replica]", "99"),
    Mutant(BalanceRoute._stage_1, "> greedy", ">= greedy"),
    Mutant(BalanceRoute._stage_2, "total_free_slots > 0", "total_free_slots > 1"),
    Mutant(BalanceRoute._candidates, "return pool[:most]", "return pool[1 : most + 1]"),
    Mutant(reference._choice, "sum(request", "max(request"),
    Mutant(reference._admit, "key=pool.index", "key=lambda r: -r.id"),
    Mutant(subsets.subset_masks.__wrapped__, "<= largest", "< largest"),
    Mutant(subsets.subset_masks.__wrapped__, "1 << candidates)", "(1 << candidates) - 1)"),
    Mutant(subsets.members.__wrapped__, "mask >> bit & 1", "mask >> bit"),
    Mutant(contribution, "p < gate", "p > gate"),
    Mutant(contribution, "(1 - p) * horizon", "(1 + p) * horizon"),
    Mutant(sum_of_peaks, "(other_slope - slope) + 1", "(other_slope - slope) + 2"),
)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Run the body with the mutant's code in the production function."""
    function = mutant.function
    assert isinstance(function, FunctionType)
    original = function.__code__
    _forget_cached_subsets()
    function.__code__ = _mutated(function, mutant)
    try:
        yield
    finally:
        function.__code__ = original
        _forget_cached_subsets()


def _mutated(function: FunctionType, mutant: Mutant) -> CodeType:
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(mutant.old) == 1, (mutant.name, source.count(mutant.old))
    lines = source.replace(mutant.old, mutant.new).splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith("def "))
    space: dict[str, Any] = {}
    changed = compile("".join(lines[first:]), mutant.name, "exec")
    exec(changed, function.__globals__, space)
    code: CodeType = space[function.__name__].__code__
    return code


def _forget_cached_subsets() -> None:
    subsets.subset_masks.cache_clear()
    subsets.members.cache_clear()
