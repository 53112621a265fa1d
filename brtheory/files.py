"""Files written whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_STEM = 50
"""Characters of the target's name that go into the temporary one: file systems end at 255 bytes."""


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target`` and rename it into place when the block succeeds.

    A reader sees the old file or the new one, never a part; a failure leaves nothing behind. A
    symbolic link stays one: the file it points to is replaced.

    Raises
    ------
    OSError
        Naming ``target``: it is no regular file (renaming over a device would delete the device),
        or its folder cannot be written to.
    """
    with _blamed_on(target):
        place = _replaceable(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        part = _empty_file_beside(place)
    try:
        with _blamed_on(target, part):
            yield part
            part.chmod(0o666 & ~_umask())
            part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def write_text_atomic(target: Path, text: str) -> None:
    """Write UTF-8 text so that ``target`` is never seen half-written."""
    with atomic_path(target) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def _blamed_on(target: Path, part: Path | None = None) -> Iterator[None]:
    """Name the file the user asked for, not the temporary one; other files keep their names."""
    try:
        yield
    except OSError as error:
        if part is not None and error.filename not in (None, str(part)):
            raise
        # Libraries that write by themselves raise errors with a text and no number.
        raise OSError(error.errno, error.strerror or str(error), str(target)) from error


def _replaceable(target: Path) -> Path:
    place = Path(os.path.realpath(target))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if place.exists() and not place.is_file():
        raise OSError(errno.EINVAL, "Not a regular file")
    return place


def _empty_file_beside(place: Path) -> Path:
    stem = place.name[:LONGEST_STEM]
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{stem}.", suffix=".part")
    os.close(handle)
    return Path(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
