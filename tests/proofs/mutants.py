"""Mutants of the core: one small change to one production function, made in place."""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from brtheory.core import fscore, growing_score, imbalance, subsets, unequal
from brtheory.core.still_horizon import StillHorizonState
from brtheory.core.tick import TickLedger
from brtheory.offline.evaluate import sum_of_peaks
from brtheory.prediction.contribution import contribution
from brtheory.routers import reference, window
from brtheory.routers.reference import BalanceRoute
from brtheory.routers.window import Window


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


def _getter(attribute: object) -> Callable[..., Any]:
    assert isinstance(attribute, property)
    assert attribute.fget is not None
    return attribute.fget


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
    Mutant(TickLedger.admit, "self.per_token(replica) * sum(", "sum("),
    Mutant(TickLedger.admit, "sum(r.reserved_tokens", "max(r.reserved_tokens"),
    Mutant(TickLedger.fits, "sum(r.reserved_tokens", "max(r.reserved_tokens"),
    Mutant(TickLedger.fits, "<= self._free_tokens", "< self._free_tokens"),
    Mutant(TickLedger.close, "= 0", "-= 1"),
    Mutant(fscore.time_f_score, "per_token * delta", "delta"),
    Mutant(unequal.time_loads, "b + a * load", "a * load"),
    Mutant(unequal.time_loads, "b + a * load", "b + load"),
    Mutant(unequal.reduce_paces, "value // divisor", "value // (2 * divisor)"),
    Mutant(unequal.reduce_paces, "Fraction(divisor, common)", "Fraction(1, common)"),
    Mutant(unequal.paces_of, "_seconds(r.b0, b0) / _decimal(r.speed)", "_seconds(r.b0, b0)"),
    Mutant(growing_score.growing_score, "reward * x - price", "reward * x + price"),
    Mutant(growing_score.growing_score, "positive_part(x - margin)", "(x - margin)"),
    Mutant(growing_score.tokens_ahead, "growth * h", "growth"),
    Mutant(growing_score.tokens_ahead, "min(steps_present, horizon + 1)", "horizon + 1"),
    Mutant(growing_score.step_rewards.__wrapped__, "discount=discount", "discount=1.0"),
    Mutant(StillHorizonState.rows, "present * self._ahead", "present"),
    Mutant(StillHorizonState.admit, "tokens=tokens + 1", "tokens=tokens"),
    Mutant(StillHorizonState.retire, "self._heavier.retire(request_id)", "pass"),
    Mutant(StillHorizonState.refresh, "self._growing.refresh(request_id, finish=finish)", "pass"),
    Mutant(Window._decide, "min(open_replicas", "max(open_replicas"),
    Mutant(Window._decide, "oldest = pool[: self.params.window]", "oldest = pool"),
    Mutant(Window._decide, "len(pool) <= ledger", "len(pool) < ledger"),
    Mutant(Window._choose, "> patience.longest_wait_s", ">= patience.longest_wait_s"),
    Mutant(Window._choose, '== "longest"', '== "fit"'),
    Mutant(Window._choose, "abs(added - room)", "abs(added)"),
    Mutant(Window._choose, "self.params.overflow_weight * max(0", "max(0"),
    Mutant(Window._choose, "max(0, added - margin)", "max(0, added)"),
    Mutant(Window._choose, "per_token * bonus - cost", "-cost"),
    Mutant(Window._choose, "patience.wait_weight * size_factor", "size_factor"),
    Mutant(Window.patience, "2 * statistics.mean_wait_s", "statistics.mean_wait_s"),
    Mutant(Window.longest_wait_s, "max(learned, self.params.age_floor_s)", "learned"),
    Mutant(Window.wait_weight, "self.params.wait_scale * ", ""),
    Mutant(
        _getter(window.WaitStatistics.median_wait_s),
        "(len(self._ordered) - 1)",
        "len(self._ordered)",
    ),
    Mutant(window.size_factor, "max(beyond, 0.0)", "beyond"),
    Mutant(window.size_factor, "params.size_weight * max", "max"),
    Mutant(window.wait_bonus, "math.floor", "math.ceil"),
    Mutant(window.not_held, "<= margin", "< margin"),
    Mutant(window.not_held, ">= hold_s", "> hold_s"),
    Mutant(window.not_held, "ledger.cap[g] == 0", "ledger.cap[g] < 0"),
    Mutant(window.least_room, "params.room_share * mean", "mean"),
    Mutant(window._target, "max(len(loads) - 1, 1)", "len(loads)"),
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
    _forget_cached()
    function.__code__ = _mutated(function, mutant)
    try:
        yield
    finally:
        function.__code__ = original
        _forget_cached()


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


def _forget_cached() -> None:
    subsets.subset_masks.cache_clear()
    subsets.members.cache_clear()
    growing_score.step_rewards.cache_clear()
