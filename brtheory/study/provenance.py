"""Which code made a result: the checkout's revision, the versions, and a digest of the sources.

The revision is None outside a checkout. The digest covers what can change a simulated number, so
that a cached cell is never reused after an edit, committed or not.
"""

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from brtheory.contracts import Contract

PACKAGES = ("brtheory", "matplotlib", "numpy", "polars", "scipy")
SILENT_PARTS = ("cli", "emulator", "proxy", "study", "traces")
"""Parts of ``brtheory`` that never make a simulated number; traces have a digest of their own."""
GIT_SECONDS = 10.0


class Revision(Contract):
    """State of the checkout; both None where there is none."""

    commit: str | None
    dirty: bool | None


def package_root() -> Path:
    """Folder of the ``brtheory`` package."""
    return Path(__file__).resolve().parent.parent


def revision(package: Path) -> Revision:
    """Git revision of the checkout whose root holds ``package``, and whether it has changes."""
    root = package.parent
    if not (root / ".git").exists():
        return Revision(commit=None, dirty=None)
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=normal")
    return Revision(commit=commit, dirty=None if status is None else bool(status))


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a study runs on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


@cache
def code_digest(module: str) -> str:
    """SHA-256 of the sources behind a simulation whose router is built in ``module``.

    Parameters
    ----------
    module
        Dotted name of the router's module; its distribution's package is covered too.
    """
    digest = hashlib.sha256(f"numpy {version('numpy')}\n".encode())
    roots = [package_root()]
    outside = module.split(".", maxsplit=1)[0]
    if outside != "brtheory":
        roots += [Path(path) for path in getattr(import_module(outside), "__path__", ())]
    for root in roots:
        for path in sorted(_sources(root)):
            digest.update(f"{path.relative_to(root.parent)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    for path in root.rglob("*.py"):
        if root.name != "brtheory" or path.relative_to(root).parts[0] not in SILENT_PARTS:
            yield path
    if root.name == "brtheory":
        yield root / "study" / "tasks.py"


def _git(root: Path, *arguments: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603  # fixed arguments, no shell
            [git, "-C", str(root), *arguments],
            capture_output=True,
            check=True,
            text=True,
            timeout=GIT_SECONDS,
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout.strip()
