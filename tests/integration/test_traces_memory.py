"""A trace of any length is described in the same memory."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

PROGRAM = """
import re, sys
from pathlib import Path
from brtheory.traces.describe import describe_stream
from brtheory.traces.read import stream_trace

rows = describe_stream(stream_trace(Path(sys.argv[1]))).rows
print(rows, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def peak_memory_kib(path, rows):
    """Largest resident memory of a process of its own that describes the file, KiB.

    From /proc: what getrusage reports would include the test runner this process was forked from.
    """
    generator = np.random.default_rng(0)
    columns = {
        "arrival_s": np.arange(rows) * 0.022,
        "prompt_tokens": generator.integers(1, 8000, rows),
        "output_tokens": generator.integers(1, 1500, rows),
    }
    pl.DataFrame(columns).write_csv(path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], check=True, capture_output=True, text=True
    )
    read, peak = map(int, done.stdout.split())
    assert read == rows
    return peak


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_describing_five_times_the_rows_takes_no_more_memory(tmp_path):
    """Four million rows more would take 92 MiB as three columns of eight bytes each."""
    path = tmp_path / "trace.csv"
    small, large = (peak_memory_kib(path, rows) for rows in (1_000_000, 5_000_000))
    assert large - small < 60 * 1024
