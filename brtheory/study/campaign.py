"""A study from its plan to its numbers: which tasks, on which traces, and their results.

Two rounds: every router over every seed and the growth with G; then, once the best router is known,
the loads over time of JSQ and of that one. What is finished is never computed twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError
from brtheory.simulation.run import RunConfig
from brtheory.simulation.spec import ArrivalSpec
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime
from brtheory.study.cells import Job, make_job
from brtheory.study.choices import ORACLE, Choice, resolve_choices, with_predictor
from brtheory.study.execution import Execution
from brtheory.study.supply import Supply, Taken
from brtheory.study.tasks import LoadsTask, Result, RunTask, StationaryTask, Task
from brtheory.traces.schema import Trace

TURNS_PER_SLOT = 12
"""Requests per slot in the growth with G: enough for the start to be forgotten."""
LEAST_SCALING_REQUESTS = 4000
SCALING_ROUTERS = ("jsq", "br0", "window")
SATURATING = ArrivalSpec("closed", 1.5)
STATIONARY_TRIALS = 2000
LOAD_POINTS = 320
SHOWN = 2
"""Routers whose loads over time are shown: JSQ and the best other one."""


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """What a study compares and under which conditions.

    Parameters
    ----------
    shape, arrivals, step_time
        As in a run.
    routers
        Texts of ``brtheory.study.choices``.
    seeds
        Seeds 0 .. seeds - 1, >= 1.
    requests
        Requests a run plays, >= 1.
    scaling
        Numbers of replicas of the growth with G; empty to leave it out.
    predictor
        Routers that predict are run with this one as well as with the oracle.
    """

    shape: ClusterShape
    arrivals: ArrivalSpec
    step_time: StepTime
    routers: tuple[str, ...]
    seeds: int
    requests: int
    scaling: tuple[int, ...]
    predictor: str = ORACLE

    def __post_init__(self) -> None:
        for name in ("seeds", "requests"):
            if getattr(self, name) < 1:
                raise InputError(name, "at least 1", getattr(self, name))
        if any(replicas < 1 for replicas in self.scaling):
            raise InputError("scaling", "numbers of replicas >= 1", self.scaling)

    @property
    def scaling_arrivals(self) -> ArrivalSpec:
        """Saturated: the study's own closed loop if that fills the slots, else closed:1.5."""
        full = self.arrivals.kind == "closed" and self.arrivals.value > 1
        return self.arrivals if full else SATURATING


@dataclass(frozen=True)
class RunCell:
    """One simulated run and its metrics; ``section`` is ``routers`` or ``scaling``."""

    section: str
    choice: Choice
    config: RunConfig
    requests: int
    metrics: Result


@dataclass(frozen=True)
class LoadCurves:
    """Loads over time of one router: steps, shape (n,), and tokens, shape (n, G)."""

    choice: Choice
    steps: IntArray
    loads: IntArray


@dataclass(frozen=True)
class StationaryPoint:
    """Mean of max - mean of G independent loads, and its standard error, tokens."""

    replicas: int
    excess_tokens: float
    standard_error_tokens: float


class Campaign:
    """A study's plan on its traces.

    Parameters
    ----------
    config
        The conditions.
    supply
        Where requests come from.

    Raises
    ------
    InputError
        If a router or parameter is unknown.
    InfeasibleError
        If a request can never fit the KV capacity.
    """

    def __init__(self, config: StudyConfig, supply: Supply) -> None:
        self.config = config
        self.supply = supply
        self._taken = Taken()
        self.choices = self._resolve()
        trace = self.trace(0)
        Lengths(trace.prompt_tokens, trace.output_tokens).check_fits(config.shape)

    def trace(self, seed: int) -> Trace:
        """The trace the routers are compared on."""
        return self._supplied(self.config.requests, seed)[0]

    def digests(self) -> list[str]:
        """Digest of the trace of each seed."""
        return [self._supplied(self.config.requests, seed)[1] for seed in range(self.config.seeds)]

    def planned(self) -> int:
        """Number of tasks of both rounds."""
        return len(self._run_plans()) + len(self._sizes()) + min(SHOWN, len(self.choices))

    def run(self, execution: Execution) -> tuple[list[RunCell], list[StationaryPoint]]:
        """First round: all runs, in the order of the plan, and the law of independent loads.

        Raises
        ------
        BrtheoryError
            If a run cannot be done.
        """
        plans = self._run_plans()
        runs = [self._job(RunTask(plan.config), plan.requests, plan.config.seed) for plan in plans]
        laws = [self._law_job(replicas) for replicas in self._sizes()]
        done = execution.finish([*runs, *laws])
        cells = [
            replace(plan, metrics=done[job.key].result)
            for plan, job in zip(plans, runs, strict=True)
        ]
        points = [
            _point(replicas, done[job.key].result)
            for replicas, job in zip(self._sizes(), laws, strict=True)
        ]
        return cells, points

    def loads(self, choices: Sequence[Choice], execution: Execution) -> list[LoadCurves]:
        """Second round: loads over time of some routers under seed 0."""
        shape, requests = self.config.shape, self.config.requests
        tasks = [
            LoadsTask(self._run_config(choice, shape, self.config.arrivals, 0), LOAD_POINTS)
            for choice in choices
        ]
        jobs = [self._job(task, requests, 0) for task in tasks]
        done = execution.finish(jobs)
        return [
            _curves(choice, done[job.key].result) for choice, job in zip(choices, jobs, strict=True)
        ]

    # -- the plan ------------------------------------------------------------------------------

    def _resolve(self) -> tuple[Choice, ...]:
        mean_output = float(self.trace(0).output_tokens.mean())
        choices = resolve_choices(
            self.config.routers, mean_output_tokens=mean_output, slots=self.config.shape.slots
        )
        return with_predictor(choices, self.config.predictor)

    def _run_plans(self) -> list[RunCell]:
        plans = self._plans("routers", self.choices, self.config.shape)
        growing = [choice for choice in self.choices if choice.label in SCALING_ROUTERS]
        for replicas in self._sizes():
            plans += self._plans("scaling", growing, replace(self.config.shape, replicas=replicas))
        return plans

    def _plans(self, section: str, choices: Sequence[Choice], shape: ClusterShape) -> list[RunCell]:
        routers = section == "routers"
        requests = self.config.requests if routers else self._scaling_requests(shape.replicas)
        arrivals = self.config.arrivals if routers else self.config.scaling_arrivals
        return [
            RunCell(section, choice, self._run_config(choice, shape, arrivals, seed), requests, {})
            for choice in choices
            for seed in range(self.config.seeds)
        ]

    def _run_config(
        self, choice: Choice, shape: ClusterShape, arrivals: ArrivalSpec, seed: int
    ) -> RunConfig:
        return RunConfig(
            router=choice.spec.name,
            shape=shape,
            params=choice.params,
            predictor=choice.predictor,
            arrivals=arrivals,
            step_time=self.config.step_time,
            seed=seed,
        )

    def _sizes(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.config.scaling)))

    def _scaling_requests(self, replicas: int) -> int:
        return max(LEAST_SCALING_REQUESTS, TURNS_PER_SLOT * replicas * self.config.shape.slots)

    def _law_job(self, replicas: int) -> Job:
        slots = self.config.shape.slots
        task = StationaryTask(replicas, slots, STATIONARY_TRIALS, seed=replicas)
        return self._job(task, self.config.requests, 0)

    def _job(self, task: Task, requests: int, seed: int) -> Job:
        trace, digest = self._supplied(requests, seed)
        return make_job(task, trace, digest=digest)

    def _supplied(self, requests: int, seed: int) -> tuple[Trace, str]:
        return self._taken.take(self.supply, requests=requests, seed=seed)


def _point(replicas: int, result: Result) -> StationaryPoint:
    return StationaryPoint(replicas, result["mean"], result["standard_error"])


def _curves(choice: Choice, result: Result) -> LoadCurves:
    steps = np.array(result["steps"], dtype=np.int64)
    return LoadCurves(choice, steps, np.array(result["loads"], dtype=np.int64))
