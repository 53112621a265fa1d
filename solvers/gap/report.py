"""The gap report as one document: every router on every instance, summaries, worst instances."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from brtheory.offline.instance import Instance, instance_to_json
from solvers.gap.families import Family
from solvers.gap.measure import RouterGap, decomposition, measure, placement_ratio
from solvers.gap.shrink import shrink

SCHEMA = "brtheory.gap/1"
SHRINK_KEEPS = 0.9
"""A shrunk worst instance keeps this share of the ratio it was saved for."""


@dataclass(frozen=True)
class Case:
    """One instance of the report.

    Parameters
    ----------
    name
        ``family-seed`` or the file's name.
    instance
        The problem.
    """

    name: str
    instance: Instance


@dataclass(frozen=True)
class Worst:
    """The worst observed ratio of a router, and the instance that shows it, shrunk.

    Parameters
    ----------
    router, case
        Names.
    ratio, shrunk_ratio
        (value - incumbent)/incumbent of barrier time at the same admissions, before and after.
    instance
        The shrunk instance.
    """

    router: str
    case: str
    ratio: float
    shrunk_ratio: float
    instance: Instance


def cases_of(families: Sequence[Family], *, seeds: int) -> list[Case]:
    """Instances of each family for seeds 0 .. seeds - 1."""
    return [
        Case(f"{family.name}-{seed}", family.make(np.random.default_rng(seed)))
        for family in families
        for seed in range(seeds)
    ]


def gap_document(
    cases: Sequence[Case],
    routers: Sequence[str],
    *,
    time_limit_s: float,
    seed: int,
    on_router: Callable[[int], None] = lambda _count: None,
) -> tuple[dict[str, object], list[Worst]]:
    """Measure everything.

    Parameters
    ----------
    cases, routers
        What on what.
    time_limit_s
        For each solve.
    seed
        Of the routers that draw.
    on_router
        Called with 1 after each replay.

    Returns
    -------
    dict, list of Worst
        The document (contract ``brtheory.gap/1``), and the worst instance of each router whose
        worst observed ratio is known and above 0.
    """
    measured = [
        (case, measure(case.instance, routers, time_limit_s=time_limit_s, seed=seed,
                       on_router=on_router))
        for case in cases
    ]  # fmt: skip
    worst = [
        found
        for router in routers
        if (found := _worst(router, measured, time_limit_s=time_limit_s, seed=seed)) is not None
    ]
    document: dict[str, object] = {
        "schema": SCHEMA,
        "seed": seed,
        "time_limit_s": time_limit_s,
        "summary": [_summary(router, measured) for router in routers],
        "worst_observed": [
            {
                "router": each.router,
                "case": each.case,
                "ratio": each.ratio,
                "shrunk_ratio": each.shrunk_ratio,
                "instance": instance_to_json(each.instance),
            }
            for each in worst
        ],
        "cases": [_case_to_json(case, gaps) for case, gaps in measured],
    }
    return document, worst


def _case_to_json(case: Case, gaps: Sequence[RouterGap]) -> dict[str, object]:
    instance = case.instance
    return {
        "name": case.name,
        "requests": len(instance.requests),
        "replicas": instance.replicas,
        "slots": instance.slots,
        "a0": instance.a0,
        "b0": instance.b0,
        "routers": [gap.to_json() for gap in gaps],
        "decomposition": decomposition(gaps),
    }


def _summary(
    router: str, measured: Sequence[tuple[Case, Sequence[RouterGap]]]
) -> dict[str, object]:
    """Mean and largest ends of the relative gaps over all cases; None where one is unknown."""
    gaps = [gap for _, each in measured for gap in each if gap.router == router]
    return {
        "router": router,
        "cases": len(gaps),
        "proved": sum(gap.time.proved for gap in gaps),
        "same_admissions_time": _ends([gap.time.relative for gap in gaps]),
        "same_admissions_imbalance": _ends([gap.imbalance.relative for gap in gaps]),
        "any_admissions_time": _ends([gap.time_any.relative for gap in gaps]),
    }


def _ends(intervals: Sequence[tuple[float | None, float | None]]) -> dict[str, object]:
    least = [low for low, _ in intervals if low is not None]
    most = [high for _, high in intervals if high is not None]
    return {
        "defined": [len(least), len(most)],
        "mean": [_mean(least), _mean(most)],
        "largest": [max(least, default=None), max(most, default=None)],
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _worst(
    router: str,
    measured: Sequence[tuple[Case, Sequence[RouterGap]]],
    *,
    time_limit_s: float,
    seed: int,
) -> Worst | None:
    ratios = [
        (gap.time.relative[0] or 0.0, position)
        for position, (_, gaps) in enumerate(measured)
        for gap in gaps
        if gap.router == router
    ]
    ratio, position = max(ratios, default=(0.0, 0))
    if ratio <= 0:
        return None

    def ratio_of(instance: Instance) -> float:
        found = placement_ratio(instance, router, time_limit_s=time_limit_s, seed=seed)
        return found or 0.0

    case = measured[position][0]
    smaller = shrink(case.instance, lambda each: ratio_of(each) >= SHRINK_KEEPS * ratio)
    return Worst(router, case.name, ratio, ratio_of(smaller), smaller)
