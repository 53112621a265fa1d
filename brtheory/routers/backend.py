"""Which implementation of a tick runs: the reference, numpy, or compiled by numba.

All decide identically; they differ in speed and in what must be installed. Compiled code is kept
in the user's cache directory, so that an installation may be read-only; the directory's name
holds a digest of all kernel sources, because numba itself only looks at the file of the function
it loads, not at those it calls.
"""

import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

Backend = Literal["auto", "reference", "numpy", "compiled"]
"""What a caller may ask for; ``auto`` is compiled where numba is installed, else numpy."""
Engine = Literal["reference", "numpy", "compiled"]

LOOP_KERNELS = "*/loop_kernels.*.nbc"
"""Files in the cache of kernels once the simulator's loop is compiled."""
CACHE_VARIABLE = "BRTHEORY_CACHE_DIR"
KERNEL_MODULES = "*kernels.py"

F = TypeVar("F", bound=Callable[..., Any])


@cache
def compiled_available() -> bool:
    """Whether numba is installed (``pip install brtheory[fast]``)."""
    return find_spec("numba") is not None


def choose_backend(backend: Backend) -> Engine:
    """The implementation to run; falls back to numpy, with a warning, where numba is missing.

    Warns
    -----
    RuntimeWarning
        If ``compiled`` was asked for and numba is not installed.
    """
    if backend == "compiled" and not compiled_available():
        warnings.warn(
            "numba is not installed, using the numpy tick: pip install 'brtheory[fast]'",
            RuntimeWarning,
            stacklevel=2,
        )
        return "numpy"
    if backend == "auto":
        return "compiled" if compiled_available() else "numpy"
    return backend


def kernel(function: F) -> F:
    """Compile a function of arrays and integers that allocates nothing and returns no array.

    The integer arithmetic is that of int64, the floating-point one strict IEEE 754: no fast-math,
    no fused operations, so that results equal the reference to the last bit. Such a function is
    inlined and compiled without reference counts: counting the arrays of its arguments took most
    of a tick. Without numba it stays plain Python.

    Array methods (``max``, ``sum``) are out of bounds in it: whether numba can compile them without
    reference counts depends on what was compiled before. A test reads the sources for them.
    """
    return _compile(function, _nrt=False, forceinline=True)


def entry_kernel(function: F) -> F:
    """Compile a function that allocates, or that Python calls."""
    return _compile(function)


def _compile(function: F, **options: bool) -> F:
    if not compiled_available():
        return function
    numba = import_module("numba")
    with _cache_directory(numba.config) as writable:
        jit = numba.njit(cache=writable, nogil=True, error_model="numpy", **options)
        compiled: F = jit(function)
    return compiled


def cache_directory() -> Path:
    """Where compiled kernels of this version of the sources are kept."""
    given = os.environ.get(CACHE_VARIABLE)
    return (Path(given) if given else _user_cache() / "brtheory") / f"kernels-{_source_digest()}"


def kernels_cached() -> bool:
    """Whether the simulator's loop, the longest kernel, is compiled already (about a minute)."""
    return any(cache_directory().glob(LOOP_KERNELS))


@contextmanager
def _cache_directory(config: Any) -> Iterator[bool]:
    """Point numba at the cache while a kernel is declared; yield whether it can be written."""
    previous, directory = config.CACHE_DIR, cache_directory()
    writable = _make(directory)
    if writable and not previous:
        config.CACHE_DIR = str(directory)
    try:
        yield writable
    finally:
        config.CACHE_DIR = previous


@cache
def _make(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


@cache
def _source_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.parent.rglob(KERNEL_MODULES)):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home()))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
