"""Tables appear whole or not at all, also where Polars reports a failed write in its own words."""

import resource
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest

from brtheory.traces.table_file import write_csv, write_parquet

FRAME = pl.DataFrame({"n": np.random.default_rng(0).integers(0, 2**60, 1000)})


@contextmanager
def no_file_longer_than(size):
    """As on a full disk, the system refuses what goes beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_what_is_written_is_read_back(tmp_path, write):
    path = tmp_path / "table"
    write(FRAME, path)
    read = pl.read_csv(path) if write is write_csv else pl.read_parquet(path)
    assert read.equals(FRAME)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_write_that_fails_names_the_target_and_leaves_the_old_file(tmp_path, write):
    path = tmp_path / "table"
    path.write_text("old")
    with no_file_longer_than(100), pytest.raises(OSError, match=r"(?i)too large|failed") as caught:
        write(FRAME, path)
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "old"
