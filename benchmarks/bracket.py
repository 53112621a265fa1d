"""What is certified at production scale: ``python -m benchmarks.bracket [PRESET ..]``.

Runs ``brtheory bound --preset`` and ``brtheory certify`` as a user would, each timed from outside,
and writes docs/results/bracket.json after every preset; what is already there is measured again.
``--workload`` (repeatable) and ``--trace`` name the requests, ``--time-limit`` the seconds. Then
fills the tables of docs/gap.md; ``--fill`` only does that.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.formulations import comparison_lines
from benchmarks.reach import read as read_reach
from benchmarks.reach import table as reach_table
from brtheory.files import write_text_atomic
from brtheory.simulation.benchmark.suite import machine
from brtheory.study.provenance import package_root, revision
from solvers.bounds.production import PRESETS, WORKLOAD

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "gap.md"
RESULTS = ROOT / "docs" / "results" / "bracket.json"
FORMULATIONS = ROOT / "docs" / "results" / "formulations.json"
SEED, TIME_LIMIT_S = 0, 300
BR0_GOAL = {8: 0.04, 16: 0.065}
"""By replicas: what BR-0's gap should be certified within."""
BRACKET_GOAL = {8: 0.02}
"""By replicas: how well the optimum should be known."""
Cell = Mapping[str, Any]
Cells = Mapping[str, Cell]


def measure(preset: str, *source: str, time_limit_s: float = TIME_LIMIT_S) -> dict[str, Any]:
    """Bound and certify one preset on a source of requests; seconds of both commands in all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        limits = ["--seed", str(SEED), "--time-limit", str(time_limit_s)]
        found, bound_s = _run("bound", "--preset", preset, *source, *limits, "--out", name)
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
    """Markdown: one row a source of requests and preset."""
    titles = (
        "requests|preset|like equal ones|prompts' share|BR-0's gap|within its goal|"
        "optimum known within|made in|checked in"
    )
    presets = list(PRESETS)
    ordered = sorted(cells.values(), key=lambda c: (c["trace"], presets.index(c["preset"])))
    lines = [f"| {titles.replace('|', ' | ')} |", "|---|---|--:|--:|--:|---|--:|--:|--:|"]
    lines += [f"| {' | '.join(_row(cell))} |" for cell in ordered]
    return "\n".join(lines) + "\n"


def goals(cells: Cells) -> str:
    """Markdown: for each goal, by what it is met, and how often it is out of reach."""
    lines = []
    for replicas, goal in BR0_GOAL.items():
        found = {key: _br0(cell) for key, cell in cells.items() if cell["replicas"] == replicas}
        lines.append(_goal(f"BR-0 within {goal:.1%} of the bound, {replicas} replicas", found))
    for replicas, goal in BRACKET_GOAL.items():
        found = {
            key: "met" if cell["incumbent"] <= (1 + goal) * cell["certified_bound"] else "not met"
            for key, cell in cells.items()
            if cell["replicas"] == replicas
        }
        lines.append(_goal(f"optimum known within {goal:.1%}, {replicas} replicas", found))
    return "\n".join(lines) + "\n"


def filled(text: str, tables: Mapping[str, str]) -> str:
    """The document with each table between its markers."""
    for name, lines in tables.items():
        marked = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        text = marked.sub(lambda found, lines=lines: found[1] + lines + found[2], text)
    return text


def tables() -> dict[str, str]:
    """Each table of the document by the name of its markers, from the result files."""
    cells = read()
    return {
        "bracket": table(cells),
        "goals": goals(cells),
        "formulations": formulations(),
        "reach": reach_table(read_reach()),
    }


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
    parser.add_argument("--workload", action="append", default=[], help="repeatable")
    parser.add_argument("--trace", help="a file of your own")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT_S)
    parser.add_argument("--fill", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    sources = [["--workload", name] for name in options.workload]
    sources += [["--trace", options.trace]] if options.trace else []
    cells, made_by = read(), revision(package_root()).model_dump()  # before results change the tree
    for source in [] if options.fill else sources or [["--workload", WORKLOAD]]:
        for preset in options.presets or list(PRESETS):
            cell = measure(preset, *source, time_limit_s=options.time_limit)
            cell |= {"revision": made_by}
            cells[f"{cell['trace']} {preset}"] = cell
            document = {"machine": machine(), "seed": SEED, "cells": cells}
            write_text_atomic(RESULTS, json.dumps(document, indent=2) + "\n")
            print(cell, file=sys.stderr)
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


def _row(cell: Cell) -> list[str]:
    best, bound, judged = cell["incumbent"], cell["certified_bound"], cell["sum_peak"]
    return [
        cell["trace"],
        f"`{cell['preset']}`",
        f"{cell['effective']:.1f} of {cell['active']}",
        f"{cell['prompt_share']:.0%}",
        f"{judged / best - 1:.2%} .. {judged / bound - 1:.2%}",
        _br0(cell),
        f"{best / bound - 1:.2%}",
        f"{cell['bound_s']:.0f} s",
        f"{cell['certify_s']:.1f} s",
    ]


def _br0(cell: Cell) -> str:
    """Whether BR-0's gap is within its goal; no bound can make it so where it is out of reach."""
    goal, judged = 1 + BR0_GOAL[cell["replicas"]], cell["sum_peak"]
    if judged <= goal * cell["certified_bound"]:
        return "met"
    return "out of reach" if judged > goal * cell["incumbent"] else "not certified"


def _goal(title: str, verdicts: Mapping[str, str]) -> str:
    met = sorted(key for key, verdict in verdicts.items() if verdict == "met")
    counts = Counter(verdict for verdict in verdicts.values() if verdict != "met")
    where = f" ({', '.join(met)})" if met else ""
    parts = [f"met in {len(met)} of {len(verdicts)} cells{where}"]
    parts += [f"{verdict} in {count}" for verdict, count in sorted(counts.items())]
    return f"* {title}: {', '.join(parts)}"


if __name__ == "__main__":
    main()
