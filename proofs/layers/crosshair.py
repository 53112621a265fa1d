"""Layer 'crosshair': contracts of pure functions, executed on symbolic integers by CrossHair.

It runs in a process of its own, since it replaces parts of the interpreter while it looks. What it
confirms over all paths is ``checked``: its models of Python are not proved. A counterexample
refutes; 'not confirmed', needs (the first assert) that nothing meets and silence leave it open.
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
from pathlib import Path
from tempfile import TemporaryDirectory

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
            if name not in reachable(module):
                return Outcome(Verdict.OPEN, f"{name}: nothing was found that meets its needs")
        if not names:
            return Outcome(Verdict.OPEN, "no contract: nothing was shown")
        return Outcome(Verdict.CHECKED, f"{len(names)} contracts confirmed over all paths")

    return Layer(Method.CROSSHAIR, scope, check, quick and not nightly, installed, nightly=nightly)


@cache
def findings(module: str, seconds: int) -> dict[str, Finding]:
    """Run CrossHair on every contract of a module, once a process; the worst finding of each."""
    source = inspect.getsource(import_module(module))
    return _run(module, _owner_of_lines(ast.parse(source)), seconds)


@cache
def reachable(module: str) -> frozenset[str]:
    """Contracts whose needs something meets: a false assert right after them is found false.

    CrossHair confirms a contract that no input reaches, so this is asked apart.
    """
    tree = ast.parse(inspect.getsource(import_module(module)))
    twin = ast.Module([_refuted_at_once(f) for f in _functions(tree)], [])
    with TemporaryDirectory(prefix="brtheory-crosshair-") as name:
        path = Path(name) / "reachable.py"
        path.write_text(ast.unparse(twin), encoding="utf-8")
        owner = _owner_of_lines(ast.parse(path.read_text(encoding="utf-8")))
        found = _run(str(path), owner, SECONDS)
    return frozenset(name for name, said in found.items() if said.kind == "error")


def contracts_of(module: str) -> list[str]:
    """Names of the contracts a module defines, in its order."""
    return [f.name for f in _functions(ast.parse(inspect.getsource(import_module(module))))]


def _run(target: str, owner: dict[int, str], seconds: int) -> dict[str, Finding]:
    command = [sys.executable, "-m", "crosshair", "check", "--analysis_kind", "asserts"]
    command += ["--report_all", "--per_condition_timeout", str(seconds), target]
    done = subprocess.run(  # noqa: S603  # arguments are this package's own, never a user's
        command, capture_output=True, text=True, timeout=SLACK + 20 * seconds, check=False
    )
    found: dict[str, Finding] = {}
    for match in filter(None, map(_LINE.match, done.stdout.splitlines())):
        line, kind, text = match.groups()
        name = owner.get(int(line))
        if name is not None and (name not in found or kind == "error"):
            found[name] = Finding(kind, text)
    return found


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _refuted_at_once(contract: ast.FunctionDef) -> ast.FunctionDef:
    needs = next(node for node in contract.body if isinstance(node, ast.Assert))
    never = ast.Assert(ast.Constant(value=False))
    twin = ast.FunctionDef(contract.name, contract.args, [needs, never], [], contract.returns)
    return ast.copy_location(twin, contract)


def _owner_of_lines(tree: ast.Module) -> dict[int, str]:
    return {
        line: f.name
        for f in _functions(tree)
        for line in range(f.lineno, (f.end_lineno or f.lineno) + 1)
    }
