"""How a study was asked for, what runs its cells, and the provenance that says so afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path

from brtheory.errors import MissingExtraError
from brtheory.study.cells import CellStore
from brtheory.study.execution import Execution, LocalPool, Pool
from brtheory.study.provenance import package_root, revision, versions
from brtheory.study.results import Provenance


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """How a study was asked for; recorded as provenance.

    Parameters
    ----------
    command
        The command line, ready to paste.
    started
        The clock, in UTC.
    workers
        Processes, >= 1.
    scheduler
        Dask scheduler that gets the cells (``tcp://host:port``), ``local`` for a Dask cluster on
        this machine; None for a plain pool of processes.
    """

    command: str
    started: datetime
    workers: int
    scheduler: str | None = None

    @contextmanager
    def execution(self, folder: Path, on_done: Callable[[int], None]) -> Iterator[Execution]:
        """What runs cells and keeps them under ``folder``.

        Raises
        ------
        InputError
            If there is no scheduler at the address.
        MissingExtraError
            If Dask is asked for and not installed.
        """
        store = CellStore(folder / "cells")
        if self.scheduler is None:
            yield Execution(store, LocalPool(self.workers), on_done)
            return
        with _dask_pool(self.scheduler, self.workers) as pool:
            yield Execution(store, pool, on_done)

    def provenance(self, execution: Execution, *, since: float) -> Provenance:
        """Which code made the numbers and what it took since ``since`` (``time.perf_counter``)."""
        return Provenance(
            command=self.command,
            started=self.started.isoformat(timespec="seconds"),
            revision=revision(package_root()),
            versions=versions(),
            workers=self.workers,
            scheduler=self.scheduler,
            wall_s=time.perf_counter() - since,
            cell_wall_s=execution.cell_wall_s,
            cells_computed=execution.computed,
            cells_reused=execution.reused,
        )


@contextmanager
def _dask_pool(scheduler: str, workers: int) -> Iterator[Pool]:
    try:
        module = import_module("brtheory.study.dask_pool")
    except ModuleNotFoundError as error:
        raise MissingExtraError("--scheduler", "cluster") from error
    with module.dask_pool(scheduler, workers=workers) as pool:
        yield pool
