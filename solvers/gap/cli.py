"""``brtheory gap``: how far routers are from the exact optimum."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from brtheory.cli.progress import progress_bar
from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.offline.instance import instance_to_json, read_instance
from solvers.gap.families import families, find_family
from solvers.gap.measure import find_spec
from solvers.gap.report import Case, cases_of, gap_document

DEFAULT_FAMILIES = ("small", "wide", "heavy-tailed", "adversarial")
DEFAULT_ROUTERS = ("jsq", "least-tokens", "pool-fifo", "br0", "exact-tick")


def gap(
    instance: Annotated[
        list[Path] | None, typer.Argument(help="Instance files (brtheory.instance/1).")
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="Family of instances, repeatable; without files and families a default choice. "
            "--family list names them."
        ),
    ] = None,
    router: Annotated[
        list[str] | None, typer.Option(help="Router by name, repeatable; default: five.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Instances of each family.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Of the routers that draw.", min=0)] = 0,
    time_limit: Annotated[float, typer.Option(help="Seconds for each exact solve.")] = 20.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for gap.json and the worst instance of each router."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure how far routers are from the best anyone could have done, knowing everything.

    Every gap is an interval unless optimality is proved. 'Same admissions' compares with the best
    replicas at the router's own admission steps; 'any admissions' with the fastest schedule that
    serves all requests. The largest gap seen is a worst observed ratio, not a competitive ratio.
    """
    if family == ["list"]:
        _list_families()
        return
    routers = list(router or DEFAULT_ROUTERS)
    for name in routers:
        find_spec(name)
    cases = [Case(path.stem, read_instance(path)) for path in instance or ()]
    names = family or (() if instance else DEFAULT_FAMILIES)
    cases.extend(cases_of([find_family(name) for name in names], seeds=seeds))
    for case in cases:
        if not case.instance.requests:
            raise InputError(case.name, "at least one request", 0)
    with progress_bar("replaying and solving", total=len(cases) * len(routers)) as advance:
        document, worst = gap_document(
            cases, routers, time_limit_s=time_limit, seed=seed, on_router=advance
        )
    if out is not None:
        write_text_atomic(out / "gap.json", json.dumps(document, indent=1) + "\n")
        for each in worst:
            text = json.dumps(instance_to_json(each.instance)) + "\n"
            write_text_atomic(out / "worst" / f"{each.router}.json", text)
    if as_json:
        typer.echo(json.dumps(document))
    else:
        _print_summary(document)


def _list_families() -> None:
    table = Table("family", "what it is")
    for each in families().values():
        table.add_row(each.name, each.summary)
    Console().print(table)


def _print_summary(document: dict[str, object]) -> None:
    table = Table(
        "router",
        "proved",
        "time gap, same admissions",
        "imbalance gap, same admissions",
        "time gap, any admissions",
        "worst observed (time)",
        title="Mean optimality gaps (intervals unless proved)",
    )
    summary = document["summary"]
    assert isinstance(summary, list)  # noqa: S101  # shape of gap_document
    for row in summary:
        table.add_row(
            row["router"],
            f"{row['proved']} of {row['cases']}",
            _interval(row["same_admissions_time"]["mean"]),
            _interval(row["same_admissions_imbalance"]["mean"]),
            _interval(row["any_admissions_time"]["mean"]),
            _interval(row["same_admissions_time"]["largest"]),
        )
    Console().print(table)


def _interval(ends: list[float | None]) -> str:
    low, high = ("unknown" if end is None else f"{end:.2%}" for end in ends)
    return low if low == high else f"{low} .. {high}"
