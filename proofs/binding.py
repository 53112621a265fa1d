"""What a statement is about, pinned: fingerprints of the production code and of the claim itself.

The fingerprint of a function is a hash of its syntax tree without docstrings, types of arguments
and results, and imports: they decide nothing, so they may change as comments and layout may, and
nothing else. What a statement names is followed: a function it names, the functions of this project
that one calls, and so on; a statement about the tick is therefore about every line the tick runs.
How an error is worded is no part of a statement: ``brtheory.errors`` is left out.
"""

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType

from proofs.statement import Statement

ROOT = "brtheory."
UNBOUND = "brtheory.errors"


def code_fingerprints(statement: Statement) -> dict[str, str]:
    """Name and fingerprint of every production function and class the statement rests on."""
    return fingerprints(statement.about)


def fingerprints(about: Iterable[object]) -> dict[str, str]:
    """Name and fingerprint of the named objects and of all production code they use."""
    return {_name(code): fingerprint(code) for code in reached(about)}


def claim_fingerprint(statement: Statement) -> str:
    """Fingerprint of what is claimed and of the scopes in which it was checked."""
    parts = (statement.claim, statement.latex, *statement.hypotheses, statement.expected)
    keys = sorted(layer.key for layer in statement.layers)
    return _digest("\n".join([*parts, *keys]))


def fingerprint(code: object) -> str:
    """Hash of the source's syntax tree without what decides nothing.

    Raises
    ------
    TypeError
        If ``code`` is not a function or a class with source.
    """
    return _digest(ast.dump(_WhatDecides().visit(ast.parse(_source(code)))))


def reached(about: Iterable[object]) -> list[object]:
    """The named objects and all production functions and classes they use, sorted by name."""
    seen: dict[str, object] = {}
    waiting = [part for code in about for part in _parts(code)]
    while waiting:
        code = waiting.pop()
        if _name(code) not in seen:
            seen[_name(code)] = code
            waiting.extend(_uses(code))
    return [seen[name] for name in sorted(seen)]


def changes(
    statement: Statement, *, recorded_code: dict[str, str], recorded_claim: str
) -> list[str]:
    """Say what changed since the statement was recorded, one line each; empty if nothing did."""
    now = code_fingerprints(statement)
    lines = [
        f"{name} changed"
        for name in sorted(now.keys() & recorded_code.keys())
        if now[name] != recorded_code[name]
    ]
    lines += [f"{name} is new" for name in sorted(now.keys() - recorded_code.keys())]
    lines += [f"{name} is gone" for name in sorted(recorded_code.keys() - now.keys())]
    if claim_fingerprint(statement) != recorded_claim:
        lines.append("the claim or its layers changed")
    return lines


class _WhatDecides(ast.NodeTransformer):
    """Leaves out docstrings, types of arguments and results, and imports.

    A field's type stays: dataclasses read it.
    """

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._without_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_Import(self, _node: ast.Import) -> None:
        """Those of modules are not in the tree either."""

    def visit_ImportFrom(self, _node: ast.ImportFrom) -> None:
        """Likewise."""

    def _without_docstring(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        if ast.get_docstring(node):
            node.body = node.body[1:]
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node


def _parts(code: object) -> Iterator[object]:
    """Split a module into its functions and classes; anything else is itself."""
    if not isinstance(code, ModuleType):
        yield code
        return
    for member in vars(code).values():
        if _is_production(member) and member.__module__ == code.__name__:
            yield member


def _uses(code: object) -> Iterator[object]:
    """Production functions and classes whose names occur in the source of ``code``."""
    nodes = list(ast.walk(ast.parse(_source(code))))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    scope = dict(vars(sys.modules[str(code.__module__)]))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(ROOT):
            source = import_module(str(node.module))
            scope |= {each.asname or each.name: getattr(source, each.name) for each in node.names}
    for name in sorted(names):
        if _is_production(scope.get(name)):
            yield scope[name]


@cache
def _source(code: object) -> str:
    """As first read: an edit while proofs run must not be recorded as what they ran on."""
    return textwrap.dedent(inspect.getsource(code))  # type: ignore[arg-type]  # raises TypeError


def _is_production(value: object) -> bool:
    code = inspect.unwrap(value) if callable(value) else value  # functools.cache wraps
    if not isinstance(code, FunctionType | type) or code.__module__ == UNBOUND:
        return False
    return code.__module__.startswith(ROOT)


def _name(code: object) -> str:
    return f"{code.__module__}.{getattr(code, '__qualname__', repr(code))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
