"""Blocks of whole lines from a file, however it is compressed, in bounded memory.

Compression is told by its magic bytes, never by the file's name. A block holds whole lines and
knows the number of its first line in the uncompressed text, so that a fault can be reported as
``file:line``. Faults of the file itself (missing, cut off, corrupt) always raise: they are no rows
that could be skipped.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import zstandard

from brtheory.errors import InputError

BLOCK_BYTES = 1 << 22
LONGEST_LINE_BYTES = 1 << 26

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
# Small compressed pieces bound what one call can inflate to.
_PIECE_BYTES = {"plain": 1 << 20, "gzip": 1 << 16, "zstd": 1 << 14}


@dataclass(frozen=True)
class Block:
    """Whole lines of a file: ``data`` starts with line ``first_line`` (counted from 1)."""

    first_line: int
    data: bytes


def open_trace(path: Path) -> IO[bytes]:
    """Open a file for reading; a missing file or a directory is bad input, not a crash."""
    if path.is_dir():
        raise InputError(str(path), "a trace file", "a directory")
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(str(path), "a readable file", error.strerror or error) from error


def read_blocks(
    path: Path,
    *,
    block_bytes: int = BLOCK_BYTES,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Block]:
    """Yield the uncompressed text of a file as blocks of whole lines.

    Parameters
    ----------
    path
        Plain, gzip or zstd (several members or frames in a row are read as one).
    block_bytes
        Size of a block in bytes; a block is larger only where one line is.
    on_progress
        Called with the number of file (compressed) bytes read since the last call.

    Raises
    ------
    InputError
        If the file is missing, a directory, cut off, corrupt, in UTF-16, or has a line longer
        than `LONGEST_LINE_BYTES`.
    """
    line = 1
    pending = b""
    for piece in _without_bom(path, _uncompressed(path, on_progress)):
        pending += piece
        if len(pending) < block_bytes:
            continue
        end = pending.rfind(b"\n") + 1
        if end:
            yield Block(line, pending[:end])
            line += pending.count(b"\n", 0, end)
            pending = pending[end:]
        if len(pending) > LONGEST_LINE_BYTES:
            expected = f"lines of at most {LONGEST_LINE_BYTES:,} bytes"
            raise InputError(f"{path}:{line}", expected, "a longer one")
    if pending:
        yield Block(line, pending)


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _uncompressed(path: Path, on_progress: Callable[[int], None] | None) -> Iterator[bytes]:
    with open_trace(path) as stream:
        magic = stream.read(4)
        kind = _compression(magic)
        pieces = _pieces(stream, magic, size=_PIECE_BYTES[kind], on_progress=on_progress)
        if kind == "gzip":
            yield from _inflated(path, pieces, kind=kind, fresh=_gzip_member)
        elif kind == "zstd":
            yield from _inflated(path, pieces, kind=kind, fresh=_zstd_frame)
        else:
            yield from pieces


def _compression(magic: bytes) -> str:
    if magic.startswith(_GZIP_MAGIC):
        return "gzip"
    return "zstd" if magic == _ZSTD_MAGIC else "plain"


def _gzip_member() -> _Inflater:
    return zlib.decompressobj(wbits=31)


def _zstd_frame() -> _Inflater:
    return zstandard.ZstdDecompressor().decompressobj()


def _pieces(
    stream: IO[bytes], start: bytes, *, size: int, on_progress: Callable[[int], None] | None
) -> Iterator[bytes]:
    piece = start + stream.read(size)
    while piece:
        if on_progress is not None:
            on_progress(len(piece))
        yield piece
        piece = stream.read(size)


def _inflated(
    path: Path, pieces: Iterator[bytes], *, kind: str, fresh: Callable[[], _Inflater]
) -> Iterator[bytes]:
    inflater = fresh()
    line = 1
    for piece in pieces:
        rest = piece
        while rest:
            if inflater.eof:
                rest = rest.lstrip(b"\0")  # padding after a member is allowed, e.g. from tar
                inflater = fresh() if rest else inflater
                continue
            try:
                text = inflater.decompress(rest)
            except (zlib.error, zstandard.ZstdError) as error:
                raise InputError(f"{path}:{line}", f"a sound {kind} stream", error) from error
            line += text.count(b"\n")
            rest = inflater.unused_data if inflater.eof else b""
            if text:
                yield text
    if not inflater.eof:
        raise InputError(f"{path}:{line}", f"a whole {kind} stream", "one that is cut off")


def _without_bom(path: Path, pieces: Iterator[bytes]) -> Iterator[bytes]:
    start = b""
    for piece in pieces:
        start += piece
        if len(start) >= len(_UTF8_BOM):
            break
    if start.startswith(_UTF16_BOMS):
        raise InputError(f"{path}:1", "text in UTF-8", "text in UTF-16")
    start = start.removeprefix(_UTF8_BOM)
    if start:
        yield start
    yield from pieces
