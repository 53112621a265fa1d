"""Where to cut time into windows: the cover whose bounds sum highest, by dynamic programming.

Borders lie on event steps (admissions and completions). A bound is valid for any choice; a good one
keeps the windows whose requests are hardest to level.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from brtheory.offline.instance import Instance

Span = tuple[int, int]
"""First step of a window and the step after its last."""


def event_steps(instance: Instance, steps: Mapping[int, int]) -> list[int]:
    """Steps at which a request is admitted or has completed, ascending."""
    starts = {steps[r.id] for r in instance.requests}
    return sorted(starts | {steps[r.id] + r.output_tokens for r in instance.requests})


def even_windows(cuts: Sequence[int], *, events: int) -> list[Span]:
    """Windows of ``events`` event steps each; the last may be shorter."""
    return list(pairwise([*cuts[:-1:events], cuts[-1]]))


def candidate_windows(
    cuts: Sequence[int], *, lengths: Sequence[int], stride: int
) -> list[list[Span]]:
    """For each possible border (every ``stride``-th event step), the windows that end there."""
    last = len(cuts) - 1
    borders = sorted({*range(0, last, stride), last})
    allowed = set(borders)
    result = []
    for end in borders[1:]:
        starts = {max(0, end - length) for length in lengths} & allowed
        # A border that no length reaches (the last, often) is reached from the one before.
        starts = starts or {borders[borders.index(end) - 1]}
        result.append([(cuts[start], cuts[end]) for start in sorted(starts)])
    return result


def best_cover(candidates: Sequence[Sequence[Span]], bounds: Mapping[Span, float]) -> list[Span]:
    """The chain of adjacent candidates with the largest sum of bounds, in order of time.

    Parameters
    ----------
    candidates
        As from ``candidate_windows``: in order of time, with a chain over everything.
    bounds
        Lower bound of each candidate, or an estimate of it.
    """
    start = candidates[0][0][0]
    best: dict[int, tuple[float, Span | None]] = {start: (0, None)}
    for ending in candidates:
        reachable = [(best[span[0]][0] + bounds[span], span) for span in ending if span[0] in best]
        best[ending[0][1]] = max(reachable)
    chain = []
    position = candidates[-1][0][1]
    while (span := best[position][1]) is not None:
        chain.append(span)
        position = span[0]
    return chain[::-1]
