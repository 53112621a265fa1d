"""The decomposition as shares of BR-0's barrier time, averaged over instances.

Units of barrier time differ between instances, shares do not.
"""

from dataclasses import dataclass

from solvers.gap.document import CaseFacts, GapDocument


@dataclass(frozen=True)
class Part:
    """A part of the decomposition.

    Parameters
    ----------
    title, meaning
        What it is called, and what it compares.
    against_optimum
        Whether an optimum is involved, so that it may be an interval; otherwise two policies are
        compared and the figure is simply measured.
    """

    title: str
    meaning: str
    against_optimum: bool = True


PARTS = {
    "online": Part(
        "deciding online",
        "best replicas at the exact tick's admissions, against the fastest schedule in which "
        "nobody waits beside a free slot",
    ),
    "holding": Part(
        "not waiting", "that schedule against the fastest of all, which may wait for every request"
    ),
    "greedy_ticks": Part(
        "tick by tick",
        "each tick solved exactly, against the best replicas at the same admissions",
    ),
    "two_stage_rule": Part(
        "two-stage rule", "BR-0 against each tick solved exactly", against_optimum=False
    ),
    "placement": Part("BR-0's replicas", "BR-0 against the best replicas at its own admissions"),
    "perfect_prediction": Part(
        "no prediction",
        "BR-0 against BR-H told true lengths; below 0 where BR-H is slower",
        against_optimum=False,
    ),
    "prediction_error": Part(
        "prediction error",
        "BR-H with the survival predictor against BR-H told true lengths",
        against_optimum=False,
    ),
}
"""By field of ``Decomposition``, in the order of reading."""


@dataclass(frozen=True)
class Share:
    """Mean of one part.

    Parameters
    ----------
    ends
        [least, most] of the mean share of BR-0's barrier time.
    cases
        Instances on which it was measured.
    """

    ends: tuple[float, float]
    cases: int


def mean_shares(document: GapDocument) -> dict[str, Share | None]:
    """Each part's mean over the instances where both ends are known; None where there are none."""
    return {name: _mean([_ends(case, name) for case in document.cases]) for name in PARTS}


def _ends(case: CaseFacts, name: str) -> tuple[float, float] | None:
    total = case.decomposition.br0_time
    part: list[int | None] | int | None = getattr(case.decomposition, name)
    if not total or part is None:
        return None
    low, high = part if isinstance(part, list) else (part, part)
    return None if low is None or high is None else (low / total, high / total)


def _mean(found: list[tuple[float, float] | None]) -> Share | None:
    known = [ends for ends in found if ends is not None]
    if not known:
        return None
    low, high = (sum(column) / len(known) for column in zip(*known, strict=True))
    return Share((low, high), len(known))
