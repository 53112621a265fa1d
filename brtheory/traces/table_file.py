"""Tables written as CSV or Parquet, whole or not at all; a full disk is an OSError as for any file.

Polars reports failed writes as errors of its own, some of which look like errors in the data.
"""

import errno
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from brtheory.files import atomic_path


def write_csv(frame: pl.DataFrame, path: Path) -> None:
    """Write CSV with a header; raises OSError naming ``path`` if that fails."""
    with atomic_path(path) as part:
        try:
            frame.write_csv(part)
        except pl.exceptions.PolarsError as error:
            raise _failed(error) from error


def write_parquet(
    frame: pl.DataFrame, path: Path, *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write Parquet with key-value metadata; raises OSError naming ``path`` if that fails."""
    with atomic_path(path) as part:
        try:
            frame.write_parquet(part, metadata=None if metadata is None else dict(metadata))
        except pl.exceptions.PolarsError as error:
            raise _failed(error) from error


def _failed(error: Exception) -> OSError:
    return OSError(errno.EIO, "Writing failed: " + " ".join(str(error).split()))
