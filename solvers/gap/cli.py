"""``brtheory gap``: how far routers are from the exact optimum."""

import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from brtheory.cli.options import Json, Seed
from brtheory.cli.progress import progress_bar
from brtheory.cli.trace_input import (
    ColumnsOption,
    End,
    OnErrorChoice,
    OnErrorOption,
    RequestOptions,
    Start,
    refuse_reading_options,
)
from brtheory.errors import InputError
from brtheory.offline.instance import read_instance
from brtheory.study.provenance import package_root, revision, versions
from solvers.gap.cuts import Cut
from solvers.gap.document import GapDocument, Provenance
from solvers.gap.families import Family, families, find_family, trace_family
from solvers.gap.output import write_gap
from solvers.gap.policies import find_policy
from solvers.gap.report import Case, Order, cases_of, gap_document

DEFAULT_FAMILIES = ("tiny", "small", "wide", "heavy-tailed", "adversarial")
DEFAULT_ROUTERS = (
    "jsq",
    "least-tokens",
    "pool-fifo",
    "br0",
    "brh",
    "brh:survival",
    "window",
    "exact-tick",
)
MOST_TRACE_REQUESTS = 20_000
"""Requests of a trace to cut from: traces can have tens of millions."""
_CUT = "Instances cut from a trace"
_DEFAULT_CUT = Cut()


def gap(
    instance: Annotated[
        list[Path] | None, typer.Argument(help="Instance files (brtheory.instance/1).")
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="Family of instances, repeatable. With neither files, families nor a trace: "
            f"{', '.join(DEFAULT_FAMILIES)}. --family list names them all."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Cut instances from this trace file (see `brtheory trace describe`), each from "
            f"another random request on, among the first {MOST_TRACE_REQUESTS:,}.",
            rich_help_panel=_CUT,
        ),
    ] = None,
    cut_requests: Annotated[
        int, typer.Option(help="Consecutive requests in a cut.", min=1, rich_help_panel=_CUT)
    ] = _DEFAULT_CUT.requests,
    replicas: Annotated[
        int, typer.Option(help="Replicas of a cut, G.", min=1, rich_help_panel=_CUT)
    ] = _DEFAULT_CUT.replicas,
    slots: Annotated[
        int, typer.Option(help="Slots of each replica of a cut.", min=1, rich_help_panel=_CUT)
    ] = _DEFAULT_CUT.slots,
    load: Annotated[
        float,
        typer.Option(
            help="Slots that a cut asks for on average, as a share of all; arrivals keep their "
            "spacing.",
            rich_help_panel=_CUT,
        ),
    ] = _DEFAULT_CUT.load,
    on_error: OnErrorOption = OnErrorChoice.RAISE,
    start: Start = None,
    end: End = None,
    columns: ColumnsOption = None,
    router: Annotated[
        list[str] | None,
        typer.Option(
            help="Router by name, repeatable; brh:survival is BR-H with a predictor that can be "
            f"deployed, brh with the oracle. Default: {', '.join(DEFAULT_ROUTERS)}.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Instances of each family and of the trace.", min=1)
    ] = 3,
    seed: Seed = 0,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for each exact solve; then an interval.", min=0.0)
    ] = 20.0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of gap.json, gap.parquet, index.html and the worst instance of each "
            "router, shrunk."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure how far routers are from the best anyone could have done, knowing everything.

    Every gap is an interval unless optimality is proved. 'Same admissions' compares with the best
    replicas at the router's own admission steps; 'work-conserving' with the fastest schedule in
    which nobody waits beside a free slot; 'any admissions' with the fastest of all, which may wait
    until every request is there. The largest gap seen is a worst observed ratio, not a competitive
    ratio.

    Examples
    --------
    `brtheory gap --out results/gap`

    `brtheory gap --trace requests.csv --router jsq --router br0 --seeds 5 --out results/gap`
    """
    if family == ["list"]:
        _list_families(as_json=as_json)
        return
    started, clock = datetime.now(UTC), time.perf_counter()
    cut = Cut(requests=cut_requests, replicas=replicas, slots=slots, load=load)
    made = [find_family(name) for name in _each_once("family", family or ())]
    routers = _each_once("router", router or DEFAULT_ROUTERS)
    for name in routers:
        find_policy(name)
    cuts, notes = _cuts(trace, cut, on_error=on_error, start=start, end=end, columns=columns)
    order = Order(
        cases=_cases(instance or (), [*made, *cuts], seeds=seeds),
        routers=routers,
        time_limit_s=time_limit,
        seed=seed,
        notes=notes,
    )
    with progress_bar("replaying and solving", total=order.planned) as advance:
        document = gap_document(
            order, provenance=_provenance(started, since=clock), on_done=advance
        )
    if out is not None:
        write_gap(document, out)
    if as_json:
        typer.echo(document.to_text(), nl=False)
    else:
        _print_summary(document)


def _cuts(
    trace: Path | None,
    cut: Cut,
    *,
    on_error: OnErrorChoice,
    start: float | None,
    end: float | None,
    columns: str | None,
) -> tuple[list[Family], list[str]]:
    """The family of a trace, if one is given, and what reading it dropped."""
    if trace is None:
        refuse_reading_options(start=start, end=end, columns=columns)
        return [], []
    source = RequestOptions(
        trace, requests=MOST_TRACE_REQUESTS, on_error=on_error, start=start, end=end,
        columns=columns,
    )  # fmt: skip
    read, dropped = source.load(seed=0)
    notes = [f"{rows:,} rows dropped: {reason}" for reason, rows in dropped.items()]
    return [trace_family(read, cut)], notes


def _each_once(option: str, names: Sequence[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--{option}", "each name once", f"{name} twice")
    return list(names)


def _cases(files: Sequence[Path], made: Sequence[Family], *, seeds: int) -> list[Case]:
    cases = [Case(path.stem, "file", read_instance(path), synthetic=None) for path in files]
    if not files and not made:
        made = [find_family(name) for name in DEFAULT_FAMILIES]
    cases.extend(cases_of(made, seeds=seeds))
    names = _each_once("instance", [case.name for case in cases])
    for name, case in zip(names, cases, strict=True):
        if not case.instance.requests:
            raise InputError(name, "at least one request", 0)
    return cases


def _provenance(started: datetime, *, since: float) -> Callable[[], Provenance]:
    return lambda: Provenance(
        command=shlex.join(["brtheory", *sys.argv[1:]]),
        started=started.isoformat(timespec="seconds"),
        revision=revision(package_root()),
        versions=versions() | _solver_versions(),
        wall_s=time.perf_counter() - since,
    )


def _solver_versions() -> dict[str, str]:
    """Of those that are installed: not every report needs one."""
    found = {}
    for name in ("ortools", "numba"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _list_families(*, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({each.name: each.summary for each in families().values()}))
        return
    table = Table("family", "what it is")
    for each in families().values():
        table.add_row(each.name, each.summary)
    Console().print(table)


def _print_summary(document: GapDocument) -> None:
    table = Table(
        "router",
        "proved",
        "same\nadm.",
        "same adm.,\nimbalance",
        "work-\nconserving",
        "any\nadmissions",
        "worst\nobserved",
        title="Mean gaps of barrier time to the optimum (intervals unless proved)",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for row in document.summary:
        table.add_row(
            row.router,
            f"{row.proved} of {row.cases}",
            _interval(row.same_admissions_time.mean),
            _interval(row.same_admissions_imbalance.mean),
            _interval(row.work_conserving_time.mean),
            _interval(row.any_admissions_time.mean),
            _interval(row.same_admissions_time.largest),
        )
    Console().print(table)


def _interval(ends: Sequence[float | None]) -> str:
    low, high = ends
    if low == high:
        return _percent(low, 2)
    return f"{_percent(low, 1).removesuffix('%')}..{_percent(high, 1)}"


def _percent(end: float | None, decimals: int) -> str:
    return "unknown" if end is None else f"{end:.{decimals}%}"
