"""Jobs on a Dask cluster: the same numbers, whatever workers come and go.

* Workers compute and return; only the study itself writes cells, as outcomes arrive.
* A worker recomputes the key of its job (task, trace, sources, numpy) and refuses another one, so
  that no result can come from other code.
* A job whose worker dies is given to another one; the scheduler gives up after three deaths. Other
  surprises are retried ``RETRIES`` times.
* A trace is a task of its own: sent once, and made again where the worker that held it has died.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import dask
from distributed import CancelledError, Client, Future, LocalCluster, wait
from distributed.scheduler import KilledWorker

from brtheory.errors import BrtheoryError, InputError
from brtheory.study.cells import Job, make_job
from brtheory.study.supply import trace_digest
from brtheory.study.workers import Outcome
from brtheory.traces.schema import Trace

LOCAL = "local"
CONNECT_S = 10.0
"""Seconds within which a scheduler must answer and a worker must be there."""
POLL_S = 2.0
ABANDONED_S = 60.0
"""Seconds without any worker after which a study gives up."""
RETRIES = 2
SAME_VERSIONS = ("python", "numpy", "dask", "distributed", "cloudpickle")
LARGEST_TRACE = "1GB"
"""Dask warns of arguments above 10 MB; a trace of a million requests is 24 MB, sent once."""
KEPT = "finished cells are kept: run again to go on"
GONE = f"the Dask scheduler went away; {KEPT}"


class DaskPool:
    """Jobs on the workers of a connected client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield outcomes as they come; long jobs start first.

        Raises
        ------
        BrtheoryError
            If a job fails, no worker survives it, or the cluster goes away.
        """
        if not jobs:
            return
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGEST_TRACE}):
            futures = self._submit(sorted(jobs, key=lambda job: -job.cost_s))
        try:
            for future in self._finished(futures):
                outcome = _outcome(future)
                if outcome.failure is not None:
                    raise BrtheoryError(outcome.failure)
                yield outcome
        finally:
            with suppress(CancelledError, OSError):
                self._client.cancel(futures)

    def _submit(self, jobs: Sequence[Job]) -> list["Future[Outcome]"]:
        traces = {id(job.trace): job.trace for job in jobs}
        sent = {
            key: self._client.submit(_same, trace, key=f"trace-{trace_digest(trace)}")
            for key, trace in traces.items()
        }
        return [
            self._client.submit(
                _run, job.key, job.task.on_engine("auto"), sent[id(job.trace)],
                key=f"cell-{job.key}", retries=RETRIES,
            )
            for job in jobs
        ]  # fmt: skip

    def _finished(self, futures: Sequence["Future[Outcome]"]) -> Iterator["Future[Outcome]"]:
        """Futures as they end, for as long as there is a cluster to end them."""
        pending, seen = set(futures), time.monotonic()
        while pending:
            try:
                done, pending = wait(pending, timeout=POLL_S, return_when="FIRST_COMPLETED")
            except TimeoutError:
                if self._client.nthreads():
                    seen = time.monotonic()
                elif time.monotonic() - seen > ABANDONED_S:
                    raise BrtheoryError(f"the Dask cluster has no workers left; {KEPT}") from None
                continue
            except (CancelledError, OSError):
                raise BrtheoryError(GONE) from None
            seen = time.monotonic()
            yield from done


@contextmanager
def dask_pool(scheduler: str, *, workers: int) -> Iterator[DaskPool]:
    """Connect to a scheduler, or start a cluster of ``workers`` processes here (``local``).

    Raises
    ------
    InputError
        If no scheduler answers or no worker is there within ``CONNECT_S`` seconds.
    BrtheoryError
        If workers run other versions than this process.
    """
    if scheduler == LOCAL:
        with (
            _quiet(),
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
                memory_limit=None, silence_logs=logging.ERROR,
            ) as cluster,
            _client(cluster.scheduler_address) as client,
        ):  # fmt: skip
            try:
                yield DaskPool(client)
            except BrtheoryError:
                # Workers that died are being started again; closed meanwhile they would complain.
                with suppress(TimeoutError, OSError):
                    client.wait_for_workers(workers, timeout=CONNECT_S)
                raise
        return
    with _quiet(), _client(scheduler) as client:
        yield DaskPool(client)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's loggers from writing what this module says in a sentence."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _client(address: str) -> Iterator[Client]:
    where = f"--scheduler {address}"
    try:
        client = Client(address, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        expected = f"a Dask scheduler that answers within {CONNECT_S:g} s"
        raise InputError(where, expected, _first_line(error)) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError as error:
            raise InputError(where, f"a worker within {CONNECT_S:g} s", "none") from error
        _check_versions(cast("Mapping[str, Any]", client.get_versions()))
        yield client


def _check_versions(found: Mapping[str, Any]) -> None:
    """Refuse a cluster whose pickles or numbers could differ from this process's."""
    here = found["client"]["packages"]
    others = {"the scheduler": found["scheduler"], **found["workers"]}
    for name, facts in others.items():
        for package in SAME_VERSIONS:
            there = facts["packages"].get(package)
            if there != here[package] and not (name == "the scheduler" and package == "numpy"):
                raise BrtheoryError(
                    f"--scheduler: expected {package} {here[package]} as here, got {there} on "
                    f"{name}"
                )


def _outcome(future: "Future[Outcome]") -> Outcome:
    if future.status == "finished":
        return future.result()
    if future.status != "error":
        raise BrtheoryError(GONE)
    error = future.exception()
    if isinstance(error, KilledWorker):
        raise BrtheoryError(
            f"a cell's workers died {error.allowed_failures + 1} times (out of memory?); {KEPT}"
        )
    raise BrtheoryError(f"a Dask worker failed: {type(error).__name__}: {error}; {KEPT}")


def _same(trace: Trace) -> Trace:
    return trace


def _run(key: str, task: Any, trace: Trace) -> Outcome:
    """On a worker: compute a job's outcome, if this is the job that was meant."""
    started = time.perf_counter()
    try:
        here = make_job(task, trace, digest=trace_digest(trace))
        if here.key != key:
            return Outcome(key, None, 0.0, "a Dask worker runs other sources than this study")
        result = task.run(trace)
    except BrtheoryError as error:
        return Outcome(key, None, time.perf_counter() - started, str(error))
    return Outcome(key, result, time.perf_counter() - started)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
