"""Jobs to results: from disk where they are finished, else computed and put there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from brtheory.routers.backend import kernels_cached
from brtheory.study.cells import CellFile, CellStore, Job
from brtheory.study.engines import engine_for
from brtheory.study.workers import Outcome, run_jobs


class Pool(Protocol):
    """Something that runs jobs; the numbers do not depend on what."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield outcomes as they come; raises BrtheoryError if a job fails."""


@dataclass(frozen=True)
class LocalPool:
    """Processes of this machine.

    Parameters
    ----------
    workers
        Their number, >= 1.
    """

    workers: int

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Run all; where kernels must be compiled, the longest job does that for the others."""
        seconds, cached = sum(job.cost_s for job in jobs), kernels_cached()
        engine = engine_for(seconds, workers=self.workers)
        jobs = [replace(job, task=job.task.on_engine(engine)) for job in jobs]
        alone = 1 if engine == "compiled" and not cached else 0
        jobs.sort(key=lambda job: -job.cost_s)
        yield from run_jobs(jobs[:alone], workers=1)
        yield from run_jobs(jobs[alone:], workers=self.workers)


@dataclass
class Execution:
    """How jobs are run, and what it took so far.

    Parameters
    ----------
    store
        Where finished cells are kept.
    pool
        What runs them.
    on_done
        Called with the number of jobs finished since the last call.
    reused, computed
        Cells read from the store and cells computed.
    cell_wall_s
        Seconds of all cells, reused ones as first measured.
    """

    store: CellStore
    pool: Pool
    on_done: Callable[[int], None]
    reused: int = 0
    computed: int = 0
    cell_wall_s: float = 0.0

    def finish(self, jobs: Sequence[Job]) -> Mapping[str, CellFile]:
        """Results of all jobs by key; each is kept as soon as it is there.

        Raises
        ------
        BrtheoryError
            If a job fails; the finished ones are kept.
        """
        unique = {job.key: job for job in jobs}
        found = {key: self.store.read(job) for key, job in unique.items()}
        done = {key: cell for key, cell in found.items() if cell is not None}
        self.reused += len(done)
        self.on_done(len(done) + len(jobs) - len(unique))
        missing = [job for key, job in unique.items() if key not in done]
        for outcome in self.pool.run(missing):
            job = unique[outcome.key]
            done[job.key] = self.store.write(job, outcome.result or {}, wall_s=outcome.wall_s)
            self.computed += 1
            self.on_done(1)
        self.cell_wall_s += sum(cell.wall_s for cell in done.values())
        return done
