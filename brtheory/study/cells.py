"""Finished tasks on disk, one small JSON file each, named after everything the result depends on.

key = SHA-256 of (task identity, trace digest, source digest). A file is whole or absent; one that
does not hold what its name says is computed again. One study at a time writes to a folder.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from brtheory.contracts import Contract
from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.study.provenance import code_digest
from brtheory.study.tasks import Result, Task
from brtheory.traces.schema import Trace


class CellFile(Contract):
    """Contents of a cell's file."""

    key: str
    identity: dict[str, Any]
    wall_s: float
    result: Result


@dataclass(frozen=True)
class Job:
    """A task on a trace, under its key."""

    key: str
    task: Task
    trace: Trace

    @property
    def cost_s(self) -> float:
        """Rough seconds it takes on the numpy engine."""
        return self.task.cost_s(len(self.trace))


@dataclass
class CellStore:
    """The folder of cells.

    Parameters
    ----------
    folder
        Where the files are.
    """

    folder: Path

    def read(self, job: Job) -> CellFile | None:
        """The finished cell, None if there is none or its file is not sound."""
        path = self._path(job.key)
        try:
            cell = CellFile.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError):
            return None
        sound = cell.key == job.key and cell.identity == job.task.identity()
        return cell if sound else None

    def write(self, job: Job, result: Result, *, wall_s: float) -> CellFile:
        """Keep a result, whole or not at all."""
        values = {
            "key": job.key,
            "identity": job.task.identity(),
            "wall_s": wall_s,
            "result": result,
        }
        text = json.dumps(values, allow_nan=False)
        write_text_atomic(self._path(job.key), text + "\n")
        return CellFile.model_validate_json(text)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def make_job(task: Task, trace: Trace, *, digest: str) -> Job:
    """A task on a trace with its key; ``digest`` is the trace's."""
    parts = [task.identity(), digest, code_digest(task.module())]
    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return Job(hashlib.sha256(text.encode()).hexdigest()[:32], task, trace)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for one study and clear what a killed one left half-written.

    The lock goes with the process, however it ends.

    Raises
    ------
    InputError
        If another study is writing to the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(str(folder), "a folder no other study is writing to", "one") from error
        for part in [*folder.glob(".*.part"), *folder.glob("*/.*.part")]:
            part.unlink(missing_ok=True)
        yield
