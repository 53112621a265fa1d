"""Processes of the benchmark: pinned to a core, their CPU and memory read from ``/proc``."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

STOP_S = 5.0


class Pinned:
    """A process, and all it starts, on one core.

    Parameters
    ----------
    command
        What to run.
    core
        Where.
    env
        Variables beside the present ones.
    log
        File for its standard error, and for its output where that is not read.
    piped
        Whether its input and output are pipes.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        core: int,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        piped: bool = False,
    ) -> None:
        self._log: IO[bytes] | None = None if log is None else log.open("wb")
        quiet: Any = self._log or subprocess.DEVNULL
        self.process = subprocess.Popen(  # noqa: S603  # commands of our own
            list(command),
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else quiet,
            stderr=quiet,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),  # noqa: PLW1509  # one thread here
        )

    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def cpu_s(self) -> float:
        """CPU seconds of all threads of its session so far, to the nanosecond."""
        total_ns = 0
        for process in self._members():
            for path in Path(f"/proc/{process}/task").glob("*/schedstat"):
                with suppress(OSError):
                    total_ns += int(path.read_text().split()[0])
        return total_ns / 1e9

    def rss_bytes(self) -> int:
        """Resident memory of all processes of its session."""
        pages = 0
        for process in self._members():
            with suppress(OSError):
                pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """End all of it."""
        for number, patience_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(patience_s)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            if pipe is not None:
                pipe.close()

    def _members(self) -> list[int]:
        """The processes of this session."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.getsid(int(path.name)) == self.process.pid:
                    found.append(int(path.name))
        return found


def wait_until(condition: Any, *, timeout_s: float, what: str) -> None:
    """Poll until something is so.

    Raises
    ------
    TimeoutError
        Naming what was waited for.
    """
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: nothing after {timeout_s:g} s")
        time.sleep(0.05)
