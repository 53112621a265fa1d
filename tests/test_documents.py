"""The documents are true: the README's numbers, its Python, and its commands as written."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from brtheory.routers.params import (
    BalanceFutureParams,
    BalanceRouteParams,
    HorizonParams,
    WindowParams,
)
from brtheory.study.results import StudyDocument
from solvers.routers import ExactTickParams, HorizonTickParams

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
COMMANDS = [
    line.split("#")[0].strip()
    for language, text in FENCE.findall(README)
    if language == "sh"
    for line in text.splitlines()
    if line.startswith("brtheory ")
]


def load_publish():
    spec = importlib.util.spec_from_file_location("publish", ROOT / "docs" / "publish.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readmes_numbers_are_those_of_the_result_file():
    """Regenerate with `make results`."""
    publish = load_publish()
    document = StudyDocument.model_validate_json(publish.SUMMARY.read_text(encoding="utf-8"))
    assert publish.with_block(README, document) == README
    assert publish.block(document) in README


def test_links_and_pictures_of_the_documents_exist():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_readmes_python_runs():
    (code,) = [text for language, text in FENCE.findall(README) if language == "python"]
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == ["jsq", "br0", "window"]


@pytest.mark.newcomer
@pytest.mark.parametrize("command", COMMANDS)
def test_the_readmes_commands_run_as_written(command, tmp_path):
    """In a copy of what they need, with the environment's own `brtheory` first on the path."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "results").mkdir()
    for other in COMMANDS:
        if other.startswith("brtheory replay") and command.startswith("brtheory judge"):
            _shell(other, tmp_path)
    assert _shell(command, tmp_path).stdout or ">" in command


def _shell(command, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, shell=True, check=True, capture_output=True, text=True, cwd=folder,
        env=os.environ | {"PATH": path},
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        BalanceRouteParams,
        HorizonParams,
        BalanceFutureParams,
        WindowParams,
        ExactTickParams,
        HorizonTickParams,
    ],
)
def test_every_parameter_of_a_router_is_documented_with_its_default(kind):
    text = (ROOT / "docs" / "routers.md").read_text(encoding="utf-8")
    for name, parameter in inspect.signature(kind).parameters.items():
        default = getattr(parameter.default, "default", parameter.default)
        assert f"| `{name}` | {default} |" in text
