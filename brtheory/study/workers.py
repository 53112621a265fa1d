"""Running jobs on several processes: results do not depend on how many.

Workers are started afresh (no forked threads), die with their parent however it ends, and leave
writing to it.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait

from brtheory.errors import BrtheoryError
from brtheory.study.cells import Job
from brtheory.study.tasks import Result

SIGNAL_GRACE_S = 0.5
"""Seconds within which an interrupt sent to a group of processes reaches all of them."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its result and the seconds it took, or why it failed."""

    key: str
    result: Result | None
    wall_s: float
    failure: str | None = None


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(jobs: Sequence[Job], *, workers: int) -> Iterator[Outcome]:
    """Yield outcomes in the order in which they come; long jobs start first.

    Raises
    ------
    BrtheoryError
        If a job fails, or a worker dies.
    """
    ordered = sorted(jobs, key=lambda job: -job.cost_s)
    alone = workers == 1 or len(ordered) <= 1
    outcomes = map(_run, ordered) if alone else _run_on_pool(ordered, workers=workers)
    for outcome in outcomes:
        if outcome.failure is not None:
            raise BrtheoryError(outcome.failure)
        yield outcome


def _run_on_pool(jobs: Sequence[Job], *, workers: int) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(workers, len(jobs)), mp_context=context, initializer=_start_worker
    )
    try:
        with _interrupts_held():
            futures = [pool.submit(_run, job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        # Ctrl-C reaches workers and parent alike; where theirs came first, wait for ours.
        time.sleep(SIGNAL_GRACE_S)
        raise BrtheoryError(
            "a worker process died (out of memory?); finished cells are kept: run again to go on"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while processes start, and act on it after that.

    They inherit the mask, so that one that is still importing does not die with a traceback; it
    lets the signal through once it is ready (``_start_worker``). Here a mask is not enough: the
    signal may reach another thread, and Python would still raise in this one.
    """
    if threading.current_thread() is not threading.main_thread() or _interrupts_ignored():
        yield
        return
    came: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if came and callable(handler):
        handler(signal.SIGINT, None)


def _run(job: Job) -> Outcome:
    started = time.perf_counter()
    try:
        result = job.task.run(job.trace)
    except BrtheoryError as error:
        # As text: errors with several arguments do not survive the way between processes.
        return Outcome(job.key, None, time.perf_counter() - started, str(error))
    return Outcome(job.key, result, time.perf_counter() - started)


def _start_worker() -> None:
    """Die at once, in silence, when the parent is gone and on Ctrl-C, unless that is ignored."""
    if not _interrupts_ignored():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _interrupts_ignored() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
