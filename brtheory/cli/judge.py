"""``brtheory judge``: recompute feasibility and every objective of an assignment."""

import json

import typer
from rich.console import Console
from rich.table import Table

from brtheory.cli.options import InputFile, Json
from brtheory.offline.assignment import read_assignment
from brtheory.offline.evaluate import Evaluation, evaluate
from brtheory.offline.instance import read_instance

INFEASIBLE = 1


def judge(instance: InputFile, assignment: InputFile, as_json: Json = False) -> None:
    """Judge an ASSIGNMENT of an INSTANCE without a solver.

    Prints whether it is feasible, every violation, and the exact figures: executed steps, sum of
    peak loads, sum of loads, total imbalance and barrier time. Exit code 1 if infeasible.

    `brtheory judge instance.json assignment.json`
    """
    verdict = evaluate(read_instance(instance), read_assignment(assignment))
    if as_json:
        typer.echo(json.dumps(verdict.to_json()))
    else:
        show_evaluation(verdict)
    if not verdict.feasible:
        raise typer.Exit(INFEASIBLE)


def show_evaluation(verdict: Evaluation) -> None:
    """Print a verdict for a person."""
    console = Console()
    table = Table(show_header=False, box=None)
    table.add_row("feasible", "yes" if verdict.feasible else "[bold red]no")
    for name, value, unit in (
        ("steps", verdict.steps, ""),
        ("sum of peaks", verdict.sum_peak, "token-steps"),
        ("sum of loads", verdict.sum_load, "token-steps"),
        ("total imbalance", verdict.imbalance_total, "token-steps"),
        ("barrier time", verdict.time_s, "s"),
    ):
        text = "unknown" if value is None else f"{value:,} {unit}"
        table.add_row(name, text)
    if verdict.idle_exact_s is not None:
        table.add_row("idle at the barrier", f"{float(verdict.idle_exact_s):,} s, all replicas")
    console.print(table)
    for violation in verdict.violations:
        console.print(f"[red]{violation}", highlight=False)
