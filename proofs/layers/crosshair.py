"""Layer 'crosshair': contracts of pure functions, executed on symbolic integers by CrossHair.

It runs in a process of its own, since it replaces parts of the interpreter while it looks. What it
confirms over all paths is ``checked``: its models of Python are not proved. A counterexample
refutes; 'not confirmed', a precondition that nothing meets and silence leave the layer open.
"""

import ast
import inspect
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from proofs.statement import Layer, Method, Outcome, Verdict

CONTRACTS = "proofs.contracts"
"""The module of the product's contracts."""
SECONDS = 5
"""CPU time for one contract in everyday runs."""
SLACK = 600
"""Wall seconds before a run is given up: a busy machine is no defect."""

CONFIRMED = "Confirmed over all paths."
_LINE = re.compile(r"^.*?:(\d+): (\w+): (.*)$")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was said of one contract: 'info', 'warning' or 'error', and the text."""

    kind: str
    text: str


def installed() -> bool:
    """Whether this machine has CrossHair."""
    return find_spec("crosshair") is not None


def crosshair(
    scope: str,
    module: str,
    *names: str,
    seconds: int = SECONDS,
    quick: bool = True,
    nightly: bool = False,
) -> Layer:
    """Make a layer from contracts.

    Parameters
    ----------
    scope
        For which cases they speak.
    module, names
        Where the contracts are, and the functions that count.
    seconds
        CPU time for each contract of the module.
    quick, nightly
        See ``Layer``.
    """

    def check() -> Outcome:
        found = findings(module, seconds)
        for name in names:
            said = found.get(name)
            if said is None:
                return Outcome(Verdict.OPEN, f"{name}: nothing was said")
            if said.kind == "error":
                return Outcome(Verdict.REFUTED, f"{name}: counterexample", said.text)
            if said.text != CONFIRMED:
                return Outcome(Verdict.OPEN, f"{name}: {said.text}")
        if not names:
            return Outcome(Verdict.OPEN, "no contract: nothing was shown")
        return Outcome(Verdict.CHECKED, f"{len(names)} contracts confirmed over all paths")

    return Layer(Method.CROSSHAIR, scope, check, quick and not nightly, installed, nightly=nightly)


@cache
def findings(module: str, seconds: int) -> dict[str, Finding]:
    """Run CrossHair on every contract of a module, once a process; the worst finding of each."""
    command = [sys.executable, "-m", "crosshair", "check", "--analysis_kind", "asserts"]
    command += ["--report_all", "--per_condition_timeout", str(seconds), module]
    done = subprocess.run(  # noqa: S603  # arguments are this package's own, never a user's
        command, capture_output=True, text=True, timeout=SLACK + 20 * seconds, check=False
    )
    owner = _owner_of_lines(module)
    found: dict[str, Finding] = {}
    for match in filter(None, map(_LINE.match, done.stdout.splitlines())):
        line, kind, text = match.groups()
        name = owner.get(int(line))
        if name is not None and (name not in found or kind == "error"):
            found[name] = Finding(kind, text)
    return found


def contracts_of(module: str) -> list[str]:
    """Names of the contracts a module defines, in its order."""
    return list(dict.fromkeys(_owner_of_lines(module).values()))


def _owner_of_lines(module: str) -> dict[int, str]:
    tree = ast.parse(inspect.getsource(import_module(module)))
    return {
        line: node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
