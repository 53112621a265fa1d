"""Catching leaks: a predictor may not know at step k what only happens after it.

Twin futures: two runs that are the same up to step k and differ in everything after it (the
lengths of all requests not finished by k, the prompts of all not admitted by k). Whatever honest
predictor is asked up to step k, it gives the same answers in both, bit for bit; one that has looked
at a length too early, through a feature, a training row or a captured array, does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from brtheory.errors import InputError
from brtheory.prediction.prequential import Answers, Timeline, play
from brtheory.prediction.protocol import Predictor

MakePredictor = Callable[[Timeline], Predictor]
"""Builds a fresh predictor; it is given the whole run, so that it can be caught using it."""


@dataclass(frozen=True, slots=True)
class Leak:
    """The first answer that depended on the future.

    Parameters
    ----------
    cut
        Step after which the twins differ.
    request, step, age
        The answer: whose, at which absolute step <= cut and age.
    answers
        (p_finish, mean_remaining) in the two runs.
    """

    cut: int
    request: int
    step: int
    age: int
    answers: tuple[tuple[float, float], tuple[float, float]]

    def __str__(self) -> str:
        one, other = self.answers
        return (
            f"the answer for request {self.request} at step {self.step} (age {self.age}) depends "
            f"on what happens after step {self.cut}: {one} or {other}"
        )


def find_leak(
    make_predictor: MakePredictor,
    timeline: Timeline,
    *,
    horizon: int,
    rng: np.random.Generator,
    cuts: int = 5,
) -> Leak | None:
    """Look for an answer that depends on the future.

    Parameters
    ----------
    make_predictor
        Called once per run.
    timeline
        A run whose requests overlap.
    horizon
        H >= 1 of the predictions.
    rng
        Draws the other futures.
    cuts
        Steps at which futures are changed, >= 1, spread evenly over the run.

    Returns
    -------
    Leak or None
        None if no answer differed. This is evidence, not a proof: a leak too small to change an
        answer before one of the cuts stays unseen.

    Raises
    ------
    InputError
        If ``cuts`` is below 1.
    """
    if cuts < 1:
        raise InputError("cuts", "at least 1", cuts)
    last = int(timeline.finish_step.max())
    for cut in np.linspace(0, last, cuts + 1, endpoint=False)[1:].astype(int).tolist():
        twin = other_future(timeline, after=cut, rng=rng)
        answers, others = (
            play(run, make_predictor(run), horizon=horizon, until=cut) for run in (timeline, twin)
        )
        leak = _first_difference(answers, others, cut=cut)
        if leak is not None:
            return leak
    return None


def other_future(timeline: Timeline, *, after: int, rng: np.random.Generator) -> Timeline:
    """A run with the same events up to step ``after`` and other ones later.

    Requests that run at that step go on for another number of steps; those admitted later have
    other lengths and prompts.
    """
    longest = int(timeline.output_tokens.max())
    known = timeline.finish_step <= after
    least = np.maximum(1, after + 1 - timeline.admitted_step)
    outputs = rng.integers(least, least + 2 * longest)
    unseen = timeline.admitted_step > after
    prompts = rng.integers(1, 1 + 2 * timeline.prompt_tokens.max(), size=len(timeline))
    return replace(
        timeline,
        output_tokens=np.where(known, timeline.output_tokens, outputs),
        prompt_tokens=np.where(unseen, prompts, timeline.prompt_tokens),
    )


def _first_difference(answers: Answers, others: Answers, *, cut: int) -> Leak | None:
    table, other = (
        np.stack([a.p_finish, np.nan_to_num(a.mean_remaining, nan=-1.0)]) for a in (answers, others)
    )
    different = np.flatnonzero((table != other).any(axis=0))
    if not len(different):
        return None
    i = int(different[0])
    pairs = [(float(t[0, i]), float(t[1, i])) for t in (table, other)]
    return Leak(
        cut,
        int(answers.request[i]),
        int(answers.step[i]),
        int(answers.age[i]),
        (pairs[0], pairs[1]),
    )
