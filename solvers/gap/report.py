"""The gap report as one document: every policy on every instance, summaries, worst instances."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from brtheory.errors import InfeasibleError
from brtheory.offline.evaluate import decimal_fraction
from brtheory.offline.instance import Instance, InstanceDocument, instance_to_json
from solvers.budget import Budget
from solvers.gap.decomposition import decomposition
from solvers.gap.document import (
    CaseFacts,
    GapDocument,
    HoldFacts,
    Provenance,
    RouterSummary,
    Settings,
    Spread,
    WorstFacts,
)
from solvers.gap.families import Family
from solvers.gap.hold import FREE_REQUESTS, POINTS, hold_curve
from solvers.gap.measure import RouterGap, measure, placement_ratio
from solvers.gap.shrink import shrink
from solvers.objective import time_weights

SHRINK_KEEPS = 0.9
"""A shrunk worst instance keeps this share of the ratio it was saved for."""


@dataclass(frozen=True)
class Case:
    """One instance of the report.

    Parameters
    ----------
    name
        ``family-seed`` or the file's name.
    family
        Family, or ``file``.
    instance
        The problem, of at least one request.
    synthetic
        Whether its requests were generated; None if unknown.
    """

    name: str
    family: str
    instance: Instance
    synthetic: bool | None


@dataclass(frozen=True)
class Order:
    """What a report is to measure.

    Parameters
    ----------
    cases, routers
        Instances, and names of policies.
    time_limit_s
        For each solve, for the limited part of each hold curve, and for shrinking each worst
        instance.
    seed
        Of the policies that draw.
    notes
        What reading the instances left out.
    """

    cases: Sequence[Case]
    routers: Sequence[str]
    time_limit_s: float
    seed: int = 0
    notes: Sequence[str] = ()

    @property
    def planned(self) -> int:
        """Units of work: replays, points of hold curves, instances to shrink."""
        curves = sum(_is_small(case.instance) for case in self.cases)
        return (len(self.cases) + 1) * len(self.routers) + POINTS * curves


@dataclass(frozen=True)
class Measured:
    """A case with the gap of every policy."""

    case: Case
    gaps: Sequence[RouterGap]
    curve: list[HoldFacts] | None


def cases_of(families: Sequence[Family], *, seeds: int) -> list[Case]:
    """Instances of each family for seeds 0 .. seeds - 1."""
    return [
        Case(
            f"{family.name}-{seed}",
            family.name,
            family.make(np.random.default_rng(seed)),
            family.synthetic,
        )
        for family in families
        for seed in range(seeds)
    ]


def gap_document(
    order: Order,
    *,
    provenance: Callable[[], Provenance],
    on_done: Callable[[int], None] = lambda _count: None,
) -> GapDocument:
    """Measure everything.

    Parameters
    ----------
    order
        What to measure.
    provenance
        Asked once everything is measured.
    on_done
        Called with the units of work done since the last call, ``order.planned`` in all.

    Raises
    ------
    InputError
        If a policy is unknown.
    InfeasibleError
        If a case cannot be served; the message names the case, the request and the limit.
    """
    measured = [_named(case, order, on_done) for case in order.cases]
    worst = []
    for router in order.routers:
        worst.append(_worst(router, measured, order))
        on_done(1)
    return GapDocument(
        schema="brtheory.gap/1",
        settings=Settings(
            routers=list(order.routers),
            seed=order.seed,
            time_limit_s=order.time_limit_s,
            free_requests=FREE_REQUESTS,
            notes=list(order.notes),
        ),
        summary=[_summary(router, measured) for router in order.routers],
        worst_observed=[each for each in worst if each is not None],
        cases=[_case_facts(each) for each in measured],
        provenance=provenance(),
    )


def _is_small(instance: Instance) -> bool:
    return len(instance.requests) <= FREE_REQUESTS


def _named(case: Case, order: Order, on_done: Callable[[int], None]) -> Measured:
    try:
        return _measured(case, order, on_done)
    except InfeasibleError as error:
        raise InfeasibleError(f"{case.name}: {error}") from error


def _measured(case: Case, order: Order, on_done: Callable[[int], None]) -> Measured:
    curve = None
    if _is_small(case.instance):
        curve = hold_curve(case.instance, time_limit_s=order.time_limit_s, on_point=on_done)
    gaps = measure(
        case.instance,
        order.routers,
        time_limit_s=order.time_limit_s,
        seed=order.seed,
        curve=curve,
        on_router=on_done,
    )
    return Measured(case, gaps, None if curve is None else [point.facts() for point in curve])


def _case_facts(measured: Measured) -> CaseFacts:
    case, instance = measured.case, measured.case.instance
    return CaseFacts(
        name=case.name,
        family=case.family,
        synthetic=case.synthetic,
        requests=len(instance.requests),
        replicas=instance.replicas,
        slots=instance.slots,
        a0=instance.a0,
        b0=instance.b0,
        unit_s=_unit_s(instance),
        routers=[gap.facts() for gap in measured.gaps],
        decomposition=decomposition(measured.gaps),
        hold_curve=measured.curve,
    )


def _unit_s(instance: Instance) -> float:
    """Seconds of one unit: b0 = p units, a0 = q units."""
    p, q = time_weights(instance.a0, instance.b0)
    if p:
        return float(decimal_fraction(instance.b0) / p)
    return float(decimal_fraction(instance.a0) / q)


def _summary(router: str, measured: Sequence[Measured]) -> RouterSummary:
    """Mean and largest ends of the relative gaps over all cases on which they are defined."""
    gaps = [gap for each in measured for gap in each.gaps if gap.router == router]
    return RouterSummary(
        router=router,
        cases=len(gaps),
        proved=sum(gap.time.proved for gap in gaps),
        same_admissions_time=_spread([gap.time.relative for gap in gaps]),
        same_admissions_imbalance=_spread([gap.imbalance.relative for gap in gaps]),
        work_conserving_time=_spread(
            [gap.time_conserving.relative for gap in gaps if gap.time_conserving is not None]
        ),
        any_admissions_time=_spread([gap.time_any.relative for gap in gaps]),
    )


def _spread(intervals: Sequence[tuple[float | None, float | None]]) -> Spread:
    least = [low for low, _ in intervals if low is not None]
    most = [high for _, high in intervals if high is not None]
    return Spread(
        defined=[len(least), len(most)],
        mean=[_mean(least), _mean(most)],
        largest=[max(least, default=None), max(most, default=None)],
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _worst(router: str, measured: Sequence[Measured], order: Order) -> WorstFacts | None:
    """The largest known ratio above 0 and its instance, shrunk; None where there is none."""
    ratios = [
        (gap.time.relative[0] or 0.0, position)
        for position, each in enumerate(measured)
        for gap in each.gaps
        if gap.router == router
    ]
    ratio, position = max(ratios, default=(0.0, 0))
    if ratio <= 0:
        return None

    def ratio_of(instance: Instance) -> float:
        found = placement_ratio(instance, router, time_limit_s=order.time_limit_s, seed=order.seed)
        return found or 0.0

    case, budget = measured[position].case, Budget(order.time_limit_s)
    smaller = shrink(
        case.instance,
        lambda each: ratio_of(each) >= SHRINK_KEEPS * ratio,
        may_go_on=lambda: budget.ended() is None,
    )
    return WorstFacts(
        router=router,
        case=case.name,
        ratio=ratio,
        shrunk_ratio=ratio_of(smaller),
        instance=InstanceDocument.model_validate(instance_to_json(smaller)),
    )
