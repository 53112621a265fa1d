"""Kernels without reference counts call nothing but kernels and plain scalar functions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "brtheory").rglob("*kernels.py"))
SCALAR_NUMPY = {"floor"}


def bare_kernels(source):
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(d, ast.Name) and d.id == "kernel" for d in node.decorator_list
        ):
            yield node


def test_there_are_kernels():
    assert sum(1 for source in SOURCES for _ in bare_kernels(source)) > 20


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_kernels_call_no_array_method_and_allocate_nothing(source):
    for function in bare_kernels(source):
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                where = f"{source.name}:{call.lineno}: {ast.unparse(call.func)}"
                assert ast.unparse(call.func.value) == "np", where
                assert call.func.attr in SCALAR_NUMPY, where
