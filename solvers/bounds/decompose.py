"""Window decomposition: a certified lower bound on sum_peak for given admission steps.

Time is cut into windows of a few events each. The optima of the windows' relaxations add up, since
a true assignment restricts to a feasible point of each; every window is proved by a tree or by the
step bound, whichever is better, and the windows are independent, so they run in parallel. Small
trees of all candidate windows choose where to cut, then the chosen windows get large ones.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace

from brtheory.errors import InputError
from brtheory.offline.instance import Instance
from solvers.bounds.plan import (
    Span,
    best_cover,
    candidate_windows,
    even_windows,
    event_steps,
)
from solvers.bounds.tree import WindowProof, prove_window
from solvers.certificate import CertificateDocument, seal_of, subject_digest, window_of

Clock = Callable[[], float]
Progress = Callable[[str, int, int], None]
"""Called with the phase (``scan`` or ``prove``), windows done in it, and windows in all."""

SCAN_SHARE = 0.4
"""Share of a time limit that goes into choosing windows."""
STARVED_SHARE = 0.1
"""Share of scanned windows that may run out of time before the scan is worth nothing."""
UNSEEN = WindowProof(0, 1, None, leaves=0, solved=0, complete=False, promise=0.0)
"""What a scan says of a window whose turn comes after its time."""


@dataclass(frozen=True)
class Effort:
    """How hard to try; any effort gives a valid bound.

    Parameters
    ----------
    lengths
        Event steps of the windows that are tried: longer windows bound better and cost much more.
        With a single length nothing is scanned and all windows are that long.
    stride
        Windows may end at every ``stride``-th event step.
    scan_solved, most_solved
        LPs per window, when choosing windows and when proving the chosen ones.
    most_leaves
        Leaves of all trees together: what the checker has to go through.
    time_limit_s
        Seconds for the whole, None for no limit. Windows whose turn comes share what is left.
    workers
        Processes; 1 stays in this one.
    """

    lengths: tuple[int, ...] = (6, 8, 10, 12)
    stride: int = 2
    scan_solved: int = 40
    most_solved: int = 3000
    most_leaves: int = 150_000
    time_limit_s: float | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("stride", "scan_solved", "most_solved", "most_leaves", "workers"):
            if getattr(self, name) < 1:
                raise InputError(name, "an integer >= 1", getattr(self, name))
        if not self.lengths or min(self.lengths) < 1:
            raise InputError("lengths", "at least one length >= 1", self.lengths)
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise InputError("time_limit_s", "seconds > 0, or none", self.time_limit_s)


@dataclass(frozen=True)
class _Job:
    """One pass over windows: what to prove, how hard, and until when."""

    instance: Instance
    steps: Mapping[int, int]
    most_solved: int
    most_leaves: int
    workers: int
    clock: Clock
    deadline: float | None
    keep_trees: bool = True


def certified_bound(
    instance: Instance,
    steps: Mapping[int, int],
    *,
    effort: Effort = Effort(),
    clock: Clock = time.monotonic,
    on_progress: Progress | None = None,
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
        See ``Progress``.

    Raises
    ------
    InputError
        If there is no request.
    MissingExtraError
        If HiGHS is not installed.
    """
    if not instance.requests:
        raise InputError("requests", "at least one request", 0)
    started, limit = clock(), effort.time_limit_s
    job = _Job(
        instance,
        steps,
        most_solved=effort.scan_solved,
        most_leaves=effort.most_leaves,
        workers=effort.workers,
        clock=clock,
        deadline=None if limit is None else started + SCAN_SHARE * limit,
        keep_trees=False,
    )
    spans = _choose(job, event_steps(instance, steps), effort=effort, on_progress=on_progress)
    job = replace(
        job,
        most_solved=effort.most_solved,
        most_leaves=max(1, effort.most_leaves // len(spans)),
        deadline=None if limit is None else started + limit,
        keep_trees=True,
    )
    proofs = _prove_all(job, spans, phase="prove", on_progress=on_progress)
    return _document(instance, steps, [(span, proofs[span]) for span in spans])


def _choose(
    job: _Job, cuts: Sequence[int], *, effort: Effort, on_progress: Progress | None
) -> list[Span]:
    if len(effort.lengths) == 1:
        return even_windows(cuts, events=effort.lengths[0])
    candidates = candidate_windows(cuts, lengths=effort.lengths, stride=effort.stride)
    spans = [span for ending in candidates for span in ending]
    proofs = _prove_all(job, spans, phase="scan", on_progress=on_progress)
    starved = sum(
        not proof.complete and proof.solved < effort.scan_solved for proof in proofs.values()
    )
    if starved > STARVED_SHARE * len(spans):
        # Windows that had no time say nothing about where to cut.
        return even_windows(cuts, events=sorted(effort.lengths)[len(effort.lengths) // 2])
    return best_cover(candidates, {span: proof.promise for span, proof in proofs.items()})


def _document(
    instance: Instance, steps: Mapping[int, int], proofs: Sequence[tuple[Span, WindowProof]]
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


def _prove_all(
    job: _Job, spans: Sequence[Span], *, phase: str, on_progress: Progress | None
) -> dict[Span, WindowProof]:
    proofs: dict[Span, WindowProof] = {}
    run = _prove_here if job.workers == 1 else _prove_in_processes
    for span, proof in run(job, spans):
        proofs[span] = proof
        if on_progress is not None:
            on_progress(phase, len(proofs), len(spans))
    return proofs


def _share(job: _Job, windows_left: int) -> float | None:
    """Seconds the next window may take, None for no limit."""
    if job.deadline is None:
        return None
    return max(0.0, job.deadline - job.clock()) * job.workers / windows_left


def _prove_here(job: _Job, spans: Sequence[Span]) -> Iterator[tuple[Span, WindowProof]]:
    for position, span in enumerate(spans):
        yield span, _prove(job, span, _share(job, len(spans) - position))


def _prove_in_processes(job: _Job, spans: Sequence[Span]) -> Iterator[tuple[Span, WindowProof]]:
    # Spawned, not forked: HiGHS keeps threads, and a fork would copy them half.
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(spans))
    running: dict[Future[WindowProof], Span] = {}
    with ProcessPoolExecutor(
        job.workers, mp_context=context, initializer=_start_worker, initargs=(job,)
    ) as pool:
        while waiting or running:
            while waiting and len(running) < 2 * job.workers:
                seconds = _share(job, len(waiting))
                span = waiting.pop()
                running[pool.submit(_prove_in_worker, span, seconds)] = span
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


_worker_jobs: list[_Job] = []
"""The one job of a worker process, sent once instead of with every window."""


def _start_worker(job: _Job) -> None:
    _worker_jobs[:] = [job]


def _prove_in_worker(span: Span, seconds: float | None) -> WindowProof:
    return _prove(_worker_jobs[0], span, seconds)


def _prove(job: _Job, span: Span, seconds: float | None) -> WindowProof:
    if seconds == 0 and not job.keep_trees:
        return UNSEEN
    deadline = None if seconds is None else job.clock() + seconds
    proof = prove_window(
        window_of(job.instance, job.steps, start=span[0], end=span[1]),
        replicas=job.instance.replicas,
        most_solved=job.most_solved,
        most_leaves=job.most_leaves,
        expired=lambda: deadline is not None and job.clock() >= deadline,
    )
    return proof if job.keep_trees else replace(proof, tree=None)
