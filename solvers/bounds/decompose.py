"""Window decomposition: a certified lower bound on sum_peak for given admission steps.

Time is cut into windows of a few events each. The optima of the windows' relaxations add up, since
a true assignment restricts to a feasible point of each; every window is proved by a tree or by the
step bound, whichever is better, and the windows are independent, so they run in parallel.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import pairwise

from brtheory.errors import InputError
from brtheory.offline.instance import Instance
from solvers.bounds.tree import WindowProof, prove_window
from solvers.certificate import (
    CertificateDocument,
    seal_of,
    subject_digest,
    window_of,
)

Clock = Callable[[], float]
Task = tuple[int, int]
"""First step of a window and the step after its last."""


@dataclass(frozen=True)
class Effort:
    """How hard to try; any effort gives a valid bound.

    Parameters
    ----------
    events
        Admission and completion steps per window: longer windows bound better and cost much more.
    most_solved
        LPs per window.
    most_leaves
        Leaves of all trees together: what the checker has to go through.
    time_limit_s
        Seconds for the whole, None for no limit. Windows whose turn comes share what is left.
    workers
        Processes; 1 stays in this one.
    """

    events: int = 12
    most_solved: int = 4000
    most_leaves: int = 120_000
    time_limit_s: float | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("events", "most_solved", "most_leaves", "workers"):
            if getattr(self, name) < 1:
                raise InputError(name, "an integer >= 1", getattr(self, name))
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise InputError("time_limit_s", "seconds > 0, or none", self.time_limit_s)


@dataclass(frozen=True)
class _Job:
    instance: Instance
    steps: Mapping[int, int]
    effort: Effort
    clock: Clock


def certified_bound(
    instance: Instance,
    steps: Mapping[int, int],
    *,
    effort: Effort = Effort(),
    clock: Clock = time.monotonic,
    on_progress: Callable[[int], None] | None = None,
) -> CertificateDocument:
    """Make a certificate of a lower bound on sum_peak.

    Parameters
    ----------
    instance
        The problem; at least one request.
    steps
        Admission step of each request (``admission_steps``).
    effort
        Limits. Without a time limit the result depends on nothing else.
    clock
        Seconds; picklable if there are several workers.
    on_progress
        Called with the number of windows proved since the last call; ``window_count`` in all.

    Raises
    ------
    InputError
        If there is no request.
    MissingExtraError
        If HiGHS is not installed.
    """
    if not instance.requests:
        raise InputError("requests", "at least one request", 0)
    tasks = cut_windows(instance, steps, events=effort.events)
    share = max(1, effort.most_leaves // len(tasks))
    job = _Job(instance, steps, replace(effort, most_leaves=share), clock)
    proofs: dict[Task, WindowProof] = {}
    for task, proof in _prove_all(job, tasks):
        proofs[task] = proof
        if on_progress is not None:
            on_progress(1)
    return _document(instance, steps, [(task, proofs[task]) for task in tasks])


def cut_windows(instance: Instance, steps: Mapping[int, int], *, events: int) -> list[Task]:
    """Windows of ``events`` event steps each, covering the first admission to the last step."""
    starts = {steps[r.id] for r in instance.requests}
    ends = {steps[r.id] + r.output_tokens for r in instance.requests}
    cuts = sorted(starts | ends)
    chosen = [*cuts[:-1:events], cuts[-1]]
    return list(pairwise(chosen))


def window_count(instance: Instance, steps: Mapping[int, int], *, effort: Effort) -> int:
    """How many windows ``certified_bound`` will prove."""
    return len(cut_windows(instance, steps, events=effort.events))


def _document(
    instance: Instance, steps: Mapping[int, int], proofs: Sequence[tuple[Task, WindowProof]]
) -> CertificateDocument:
    windows = [
        {"start": start, "end": end, "bound": p.bound, "scale": p.scale, "tree": p.tree}
        for (start, end), p in proofs
    ]
    draft = CertificateDocument.model_validate(
        {
            "schema": "brtheory.certificate/1",
            "subject": subject_digest(instance, steps),
            "bound": sum(p.bound for _, p in proofs),
            "windows": windows,
            "seal": "",
        }
    )
    return draft.model_copy(update={"seal": seal_of(draft)})


def _prove_all(job: _Job, tasks: Sequence[Task]) -> Iterator[tuple[Task, WindowProof]]:
    limit, started = job.effort.time_limit_s, job.clock()

    def share(left: int) -> float | None:
        if limit is None:
            return None
        return max(0.0, limit - (job.clock() - started)) * job.effort.workers / left

    if job.effort.workers == 1:
        for position, task in enumerate(tasks):
            yield task, _prove(job, task, share(len(tasks) - position))
    else:
        yield from _prove_in_processes(job, tasks, share)


def _prove_in_processes(
    job: _Job, tasks: Sequence[Task], share: Callable[[int], float | None]
) -> Iterator[tuple[Task, WindowProof]]:
    # Spawned, not forked: HiGHS keeps threads, and a fork would copy them half.
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(tasks))
    running: dict[Future[WindowProof], Task] = {}
    with ProcessPoolExecutor(
        job.effort.workers, mp_context=context, initializer=_start_worker, initargs=(job,)
    ) as pool:
        while waiting or running:
            while waiting and len(running) < job.effort.workers:
                seconds = share(len(waiting))
                task = waiting.pop()
                running[pool.submit(_prove_in_worker, task, seconds)] = task
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


_worker_jobs: list[_Job] = []
"""The one job of a worker process, sent once instead of with every window."""


def _start_worker(job: _Job) -> None:
    _worker_jobs[:] = [job]


def _prove_in_worker(task: Task, seconds: float | None) -> WindowProof:
    return _prove(_worker_jobs[0], task, seconds)


def _prove(job: _Job, task: Task, seconds: float | None) -> WindowProof:
    deadline = None if seconds is None else job.clock() + seconds
    return prove_window(
        window_of(job.instance, job.steps, start=task[0], end=task[1]),
        replicas=job.instance.replicas,
        most_solved=job.effort.most_solved,
        most_leaves=job.effort.most_leaves,
        expired=lambda: deadline is not None and job.clock() >= deadline,
    )
