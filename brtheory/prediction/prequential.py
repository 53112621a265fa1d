"""Prequential play: predict, then learn, step by step, as a proxy would live through a run.

A timeline says when each request was admitted and how long its output really was. Playing it makes
exactly the calls of ``brtheory.prediction.protocol`` in their order and writes down every answer
with the step it was given at; scoring comes afterwards, when all lengths are known.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.exact_match import NO_PREFIX
from brtheory.prediction.protocol import OnlinePredictor, Prediction, Predictor, Running


@dataclass(frozen=True)
class Timeline:
    """A run to learn from: n requests, each with shape (n,) int64 columns; request i has id i.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s_i and the true o_i, tokens >= 1.
    admitted_step
        Absolute step of admission, >= 0; the request decodes for ``output_tokens`` steps from it.
    prefix_id
        Prompt-hash prefix, ``NO_PREFIX`` where a request has none; None where none has.

    Raises
    ------
    InputError
        If the columns differ in length, are empty or hold numbers out of range.
    """

    prompt_tokens: IntArray
    output_tokens: IntArray
    admitted_step: IntArray
    prefix_id: IntArray | None = None

    def __post_init__(self) -> None:
        columns = {"prompt_tokens": 1, "output_tokens": 1, "admitted_step": 0}
        for name, least in columns.items():
            column = getattr(self, name)
            if len(column) == 0 or len(column) != len(self.prompt_tokens):
                raise InputError(name, "one value a request, at least one request", len(column))
            if column.min() < least:
                raise InputError(name, f"integers >= {least}", column.min())
        if self.prefix_id is not None and len(self.prefix_id) != len(self):
            raise InputError("prefix_id", "one value a request", len(self.prefix_id))

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def finish_step(self) -> IntArray:
        """Absolute step at which each request is known to have finished, shape (n,)."""
        return self.admitted_step + self.output_tokens

    def request(self, index: int) -> Request:
        """Request ``index`` as a router sees it."""
        return Request(id=index, prompt_tokens=int(self.prompt_tokens[index]))

    def prefix_of(self, request: Request) -> int | None:
        """Prompt-hash prefix of a request, None where it has none."""
        if self.prefix_id is None:
            return None
        prefix = int(self.prefix_id[request.id])
        return None if prefix == NO_PREFIX else prefix


@dataclass(frozen=True)
class Answers:
    """Predictions in the order they were made; every column has shape (k,).

    Parameters
    ----------
    request, step, age
        Whose, at which absolute step and age (int64).
    p_finish
        In [0, 1].
    mean_remaining
        Steps, NaN where the predictor gave none.
    """

    request: IntArray
    step: IntArray
    age: IntArray
    p_finish: NDArray[np.float64]
    mean_remaining: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.request)


def play(
    timeline: Timeline,
    predictor: Predictor,
    *,
    horizon: int,
    refresh: int | None = None,
    until: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Answers:
    """Live through a timeline with a predictor.

    Parameters
    ----------
    timeline
        The run.
    predictor
        Asked at age 0 and at every multiple of ``refresh``; an ``OnlinePredictor`` learns too.
    horizon
        H >= 1.
    refresh
        Steps between two predictions for one request, >= 1; None is max(1, H // 2).
    until
        Last step played; None is to the end.
    on_progress
        Called with the number of requests finished since the last call.

    Raises
    ------
    InputError
        If the horizon or the refresh is below 1.
    """
    refresh = max(1, horizon // 2) if refresh is None else refresh
    for name, value in (("horizon", horizon), ("refresh", refresh)):
        if value < 1:
            raise InputError(name, "at least 1 step", value)
    playing = _Play(timeline, predictor, horizon=horizon, refresh=refresh)
    while (step := playing.next_step()) is not None and (until is None or step <= until):
        finished = playing.run(step)
        if finished and on_progress is not None:
            on_progress(finished)
    return playing.log.answers()


@dataclass
class _Log:
    whose: list[tuple[int, int, int]] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)

    def answers(self) -> Answers:
        request, step, age = np.array(self.whose, dtype=np.int64).reshape(-1, 3).T
        means = [p.mean_remaining for p in self.predictions]
        return Answers(
            request,
            step,
            age,
            np.array([p.p_finish for p in self.predictions], dtype=np.float64),
            np.array([np.nan if mean is None else mean for mean in means], dtype=np.float64),
        )


class _Play:
    """The state of a play: who runs, what comes next."""

    def __init__(
        self, timeline: Timeline, predictor: Predictor, *, horizon: int, refresh: int
    ) -> None:
        self.log = _Log()
        self._predictor = predictor
        self._learner = predictor if isinstance(predictor, OnlinePredictor) else None
        self._horizon = horizon
        self._refresh = refresh
        self._prompts = timeline.prompt_tokens.tolist()
        self._outputs = timeline.output_tokens.tolist()
        self._admitted = timeline.admitted_step.tolist()
        order = np.argsort(timeline.admitted_step, kind="stable")
        self._to_admit: list[int] = order[::-1].tolist()
        self._running: dict[int, Request] = {}
        self._finishes: list[tuple[int, int]] = []
        self._due: list[tuple[int, int]] = []

    def next_step(self) -> int | None:
        """Step of the next event, None at the end."""
        steps = [queue[0][0] for queue in (self._finishes, self._due) if queue]
        if self._to_admit:
            steps.append(self._admitted[self._to_admit[-1]])
        return min(steps, default=None)

    def run(self, step: int) -> int:
        """One step; the number of requests that finished at its start."""
        finished = self._finish(step)
        learner = self._learner
        if learner is not None and learner.refit_due:
            learner.refit([Running(r, step - self._admitted[i]) for i, r in self._running.items()])
        for index in _popped(self._due, step):
            if index in self._running:
                self._predict(index, step)
        self._admit(step)
        return finished

    def _finish(self, step: int) -> int:
        finished = 0
        for index in _popped(self._finishes, step):
            request = self._running.pop(index)
            finished += 1
            if self._learner is not None:
                self._learner.observe_finished(request, output_tokens=self._outputs[index])
        return finished

    def _admit(self, step: int) -> None:
        while self._to_admit and self._admitted[self._to_admit[-1]] == step:
            index = self._to_admit.pop()
            request = Request(id=index, prompt_tokens=self._prompts[index])
            self._running[index] = request
            heapq.heappush(self._finishes, (step + self._outputs[index], index))
            if self._learner is not None:
                self._learner.observe_admitted(request)
            self._predict(index, step)

    def _predict(self, index: int, step: int) -> None:
        age = step - self._admitted[index]
        prediction = self._predictor.predict(self._running[index], age=age, horizon=self._horizon)
        self.log.whose.append((index, step, age))
        self.log.predictions.append(prediction)
        heapq.heappush(self._due, (step + self._refresh, index))


def _popped(queue: list[tuple[int, int]], step: int) -> Iterator[int]:
    """Take the entries of this step off a heap, in order of id."""
    while queue and queue[0][0] == step:
        yield heapq.heappop(queue)[1]
