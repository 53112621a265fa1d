"""Coq and OCaml as programs: which are missing on this machine, and how one is run."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brtheory.errors import BrtheoryError

PROVER = ("coqc", "coqchk")
"""Programs that compile and recheck the proofs."""
EXTRACTION = ("coqc", "ocamlfind", "ocamlopt")
"""Programs that turn the proved tick into one that runs."""

SECONDS = 900
"""Limit for one run; full rechecking of Coq's library takes minutes on a busy machine."""


class KernelError(BrtheoryError):
    """A program of the kernel layer failed; the message is what it said first."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a program wrote to standard output and to standard error."""

    output: str
    errors: str


def missing(programs: Sequence[str]) -> list[str]:
    """Those of the programs that this machine does not have."""
    return [name for name in programs if shutil.which(name) is None]


def run_program(command: Sequence[str], *, directory: Path, given: str = "") -> Said:
    """Run one program to its end.

    Parameters
    ----------
    command
        Program name and arguments.
    directory
        Where it runs and writes.
    given
        Its standard input.

    Raises
    ------
    KernelError
        If it is missing, fails, or runs into ``SECONDS``.
    """
    program = shutil.which(command[0])
    if program is None:
        raise KernelError(f"{command[0]}: not installed")
    try:
        done = subprocess.run(  # noqa: S603  # arguments are this package's own, never a user's
            [program, *command[1:]],
            cwd=directory,
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KernelError(f"{command[0]}: not done after {SECONDS} s") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise KernelError(f"{command[0]}: {said[:300]}")
    return Said(done.stdout, done.stderr)
