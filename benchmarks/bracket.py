"""What is certified at production scale: ``python -m benchmarks.bracket [PRESET ..] [--fill]``.

Runs ``brtheory bound --preset`` and ``brtheory certify`` as a user would, each timed from outside,
and writes docs/results/bracket.json after every preset; presets already there are measured again.
Then fills the tables of docs/gap.md; ``--fill`` only does that. What was not measured shows dashes.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.formulations import comparison_lines
from brtheory.files import write_text_atomic
from brtheory.simulation.benchmark.suite import machine
from brtheory.study.provenance import package_root, revision
from solvers.bounds.production import PRESETS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "gap.md"
RESULTS = ROOT / "docs" / "results" / "bracket.json"
FORMULATIONS = ROOT / "docs" / "results" / "formulations.json"
SEED, TIME_LIMIT_S = 0, 300
Cells = Mapping[str, Mapping[str, Any]]


def measure(preset: str, *, time_limit_s: float = TIME_LIMIT_S) -> dict[str, Any]:
    """Bound and certify one preset; seconds of both commands from start to end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        limits = ["--seed", str(SEED), "--time-limit", str(time_limit_s)]
        found, bound_s = _run("bound", "--preset", preset, *limits, "--out", name)
        checked, certify_s = _run(
            "certify",
            str(folder / "instance.json"),
            str(folder / "certificate.json"),
            "--admissions",
            str(folder / "assignment.json"),
        )
    # The table calls these bounds certified, so the certificate's own are the ones it shows.
    if not checked["valid"] or checked["bound"] != found["certified_bound"]:
        raise SystemExit(f"{preset}: the checker says {checked}")
    return {**found, "bound_s": bound_s, "certify_s": certify_s}


def table(cells: Cells) -> str:
    """Markdown: one row a preset."""
    titles = "preset|replicas|active a replica|BR-0's gap|optimum known within|made in|checked in"
    lines = [f"| {titles.replace('|', ' | ')} |", "|---|--:|--:|--:|--:|--:|--:|"]
    for name, preset in PRESETS.items():
        measured = _measured(cells[name]) if name in cells else ["-"] * 4
        lines.append(
            f"| `{name}` | {preset.replicas} | {preset.active} | " + " | ".join(measured) + " |"
        )
    return "\n".join(lines) + "\n"


def filled(text: str, tables: Mapping[str, str]) -> str:
    """The document with each table between its markers."""
    for name, lines in tables.items():
        marked = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        text = marked.sub(lambda found, lines=lines: found[1] + lines + found[2], text)
    return text


def tables() -> dict[str, str]:
    """Each table of the document by the name of its markers, from the result files."""
    return {"bracket": table(read()), "formulations": formulations()}


def formulations(path: Path = FORMULATIONS) -> str:
    """The comparison of ``benchmarks.formulations``; one sentence where it was not measured."""
    if not path.exists():
        return "Not measured.\n"
    document = json.loads(path.read_text(encoding="utf-8"))
    limit = document["effort"]["cpu_limit_s"]
    lines = [f"Proved within {limit:g} s:", "", *comparison_lines(document["comparisons"])]
    return "\n".join(lines) + "\n"


def read(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Measured presets; an absent file has none."""
    if not path.exists():
        return {}
    cells: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for, write, fill the document."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.bracket")
    parser.add_argument("presets", nargs="*", help="default: all of them")
    parser.add_argument("--fill", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    cells = read()
    for preset in [] if options.fill else options.presets or list(PRESETS):
        cells[preset] = measure(preset) | {"revision": revision(package_root()).model_dump()}
        document = {"machine": machine(), "seed": SEED, "cells": cells}
        write_text_atomic(RESULTS, json.dumps(document, indent=2) + "\n")
        print(preset, cells[preset], file=sys.stderr)
    text = DOCUMENT.read_text(encoding="utf-8")
    write_text_atomic(DOCUMENT, filled(text, tables()))


def _run(*arguments: str) -> tuple[dict[str, Any], float]:
    command = str(Path(sys.executable).with_name("brtheory"))
    started = time.monotonic()
    done = subprocess.run(  # noqa: S603  # our own command
        [command, *arguments, "--json"], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - started
    if done.returncode:
        raise SystemExit(f"brtheory {arguments[0]}: {done.stderr or done.stdout}")
    return json.loads(done.stdout), seconds


def _measured(cell: Mapping[str, Any]) -> list[str]:
    best, bound, judged = cell["incumbent"], cell["certified_bound"], cell["sum_peak"]
    return [
        f"{judged / best - 1:.2%} .. {judged / bound - 1:.2%}",
        f"{best / bound - 1:.2%}",
        f"{cell['bound_s']:.0f} s",
        f"{cell['certify_s']:.1f} s",
    ]


if __name__ == "__main__":
    main()
