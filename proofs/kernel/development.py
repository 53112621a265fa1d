"""The Coq development: compiled in a temporary directory, rechecked, and asked what it proves.

Three things are read off, none of them from the sources' own words: each theorem's statement and
axioms as Coq prints them, and coqchk's account of what the compiled files rest on. The checker is a
second, smaller program that trusts neither the compiler nor its tactics. Its quick form rechecks
this project's files and takes Coq's standard library as it is installed; the thorough form rechecks
that too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from proofs.kernel.toolchain import KernelError, run_program

SOURCES = Path(__file__).parent
LIBRARY = "Kernel"
MODULES = (
    "Imbalance",
    "Conservation",
    "Holding",
    "Adversary",
    "Tick",
    "BalanceRoute",
    "Extremes",
)
"""In an order in which each file comes after those it needs."""

AXIOM_FREE = "Closed under the global context"
SECTION = re.compile(r"^\* (.+?):(.*(?:\n(?!\* ).*)*)", re.MULTILINE)
"""One heading of coqchk's summary, and what stands under it."""


@dataclass(frozen=True, slots=True)
class Theorem:
    """One theorem as Coq prints it.

    Parameters
    ----------
    statement
        Its type, on one line.
    axioms
        What ``Print Assumptions`` names, sorted; empty for a theorem without axioms.
    """

    statement: str
    axioms: tuple[str, ...]


def compile_modules(directory: Path, modules: Sequence[str]) -> None:
    """Copy modules into a directory and compile them there, in the given order.

    Raises
    ------
    KernelError
        If one does not compile.
    """
    for module in modules:
        source = (SOURCES / f"{module}.v").read_text(encoding="utf-8")
        (directory / f"{module}.v").write_text(source, encoding="utf-8")
        run_program(["coqc", "-q", "-R", ".", LIBRARY, f"{module}.v"], directory=directory)


@cache
def theorems(names: tuple[str, ...]) -> dict[str, Theorem]:
    """Compile the development, recheck it and ask for theorems, once a process.

    Parameters
    ----------
    names
        'Module.theorem'.

    Raises
    ------
    KernelError
        If it does not compile, coqchk is not content, or a theorem does not exist.
    """
    with TemporaryDirectory(prefix="brtheory-kernel-") as name:
        directory = Path(name)
        compile_modules(directory, MODULES)
        _recheck(directory, thorough=False)
        return _ask(directory, names)


def recheck_with_library() -> str:
    """Recheck the development and all of Coq's library it rests on; return coqchk's summary.

    Raises
    ------
    KernelError
        If anything is not what ``theorems`` demands, or an axiom is used anywhere.
    """
    with TemporaryDirectory(prefix="brtheory-kernel-") as name:
        directory = Path(name)
        compile_modules(directory, MODULES)
        return _recheck(directory, thorough=True)


def unsound(summary: str, *, axioms: bool) -> list[str]:
    """Headings of coqchk's summary under which something stands that must not.

    Parameters
    ----------
    summary
        What ``coqchk -o`` printed.
    axioms
        Whether axioms count: coqchk lists those of whatever it was told not to recheck.
    """
    found = {title.strip(): content.strip() for title, content in SECTION.findall(summary)}
    judged = {title: text for title, text in found.items() if title not in {"Theory", "Axioms"}}
    own = [line for line in found.get("Axioms", "").split() if line.startswith(f"{LIBRARY}.")]
    lines = [title for title, text in judged.items() if text != "<none>"]
    if own or (axioms and found.get("Axioms") != "<none>"):
        lines.append("Axioms")
    return lines if judged else ["no summary"]


def _recheck(directory: Path, *, thorough: bool) -> str:
    wanted = [f"{LIBRARY}.{module}" for module in MODULES]
    chosen = wanted if thorough else [part for name in wanted for part in ("-norec", name)]
    command = ["coqchk", "-silent", "-o", "-R", ".", LIBRARY, *chosen]
    summary = run_program(command, directory=directory).errors  # that is where coqchk writes it
    bad = unsound(summary, axioms=thorough)
    if bad:
        raise KernelError(f"coqchk is not content: {', '.join(bad)}")
    return summary


def _ask(directory: Path, names: Sequence[str]) -> dict[str, Theorem]:
    """Let Coq print each theorem; marks between the answers tell them apart."""
    lines = [f"From {LIBRARY} Require {module}." for module in MODULES]
    lines += ["Require Import String ZArith List.", "Open Scope Z_scope.", "Import ListNotations."]
    lines += ["Set Printing Width 100000."]
    for name in names:
        path = f"{LIBRARY}.{name}"
        lines += [f'Check "@@{name}"%string.', f"Check @{path}.", f"Print Assumptions {path}."]
    (directory / "Question.v").write_text("\n".join(lines) + "\n", encoding="utf-8")
    answer = run_program(["coqc", "-q", "-R", ".", LIBRARY, "Question.v"], directory=directory)
    return dict(_theorem(part) for part in answer.output.split('"@@')[1:])


def _theorem(answer: str) -> tuple[str, Theorem]:
    name, text = answer.split('"', 1)
    lines = text.split("\n", 2)[2].splitlines()  # the mark's own type takes a line
    body = "\n".join(lines[1:])  # the first line repeats the name
    statement, _, assumed = body.partition("\nAxioms:\n")
    if not assumed:
        statement, closed, _ = body.partition(f"\n{AXIOM_FREE}")
        if not closed:
            raise KernelError(f"{name}: Coq's answer has no list of axioms")
    axioms = re.findall(r"^(\S+)\s*(?::|$)", assumed, re.MULTILINE)
    return name, Theorem(" ".join(statement.split()).removeprefix(": "), tuple(sorted(axioms)))
