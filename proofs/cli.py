"""``brtheory prove``: run the layers, show the ledger, explain one statement."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from brtheory.cli.progress import progress_bar
from brtheory.errors import InputError, MissingExtraError
from proofs.ledger import LayerRow, Row, layer_count, recorded, run
from proofs.record import RECORD_PATH, Record, read_record, update_record
from proofs.report import to_json, verdict_counts, write_ledger
from proofs.statement import Statement, Verdict

PACKAGES = {"sympy", "z3", "cvc5", "hypothesis"}


def prove(
    id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Explain and run one statement, e.g. T16 or R3."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Only the layers that fit in a minute together; the others are shown as 'not run "
            "here' with their last recorded verdict and its date.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the ledger as a JSON list on standard output.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            file_okay=False,
            help="Write ledger.json, ledger.md, ledger.html and the solvers' inputs (.smt2) here.",
        ),
    ] = None,
    nightly: Annotated[
        bool,
        typer.Option(
            "--nightly",
            help="The nightly layers too, which widen others: the tick with four waiting requests "
            "on every path, long crosshair runs. Without it their last recorded verdict is shown. "
            "BRTHEORY_NIGHTLY=1 does the same.",
            envvar="BRTHEORY_NIGHTLY",
        ),
    ] = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Keep the verdicts, and fingerprints of the code they are about, as the record "
            "that quick runs and the tests compare with: each layer's as soon as it has finished. "
            "With --nightly, layers with a recorded verdict that still fits claim and code are "
            "left out, so that an interrupted night goes on where it stopped. Not with --quick.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="With --nightly --record: run the layers already recorded too."
        ),
    ] = False,
) -> None:
    """Machine-check the package's statements against its own code.

    Every statement is checked by independent layers. symbolic: algebra by regions (sympy). smt:
    two solvers, z3 and cvc5, that must agree. execution: every path of the product's own functions
    on symbolic reals. search: the product on every case of a finite scope, or on generated ones
    (hypothesis). crosshair: contracts of the pure functions, any integers. kernel: theorems that
    Coq checked, and the program extracted from them. A layer whose programs are missing says 'not
    run here' with its last recorded verdict and date; it never counts as passed.

    Verdicts: proved (every case), checked (a stated bounded scope), refuted (with a counterexample
    replayed on the product), open. Exit code 1 if a layer disagrees with what a statement stands
    for.
    """
    if record and quick:
        raise InputError("--record", "a run without --quick", "both")
    if again and not (nightly and record):
        raise InputError("--again", "--nightly --record beside it", "not both")
    statements = _chosen(id)
    known = read_record(RECORD_PATH)
    with progress_bar("proving", total=layer_count(statements)) as advance:

        def finished(statement: Statement, found: LayerRow) -> None:
            if record:
                update_record(
                    lambda now: recorded(statement, found, now, date=_today()), RECORD_PATH
                )
            advance(1)

        rows = run(
            statements,
            quick=quick,
            nightly=nightly,
            resume=nightly and record and not again,
            record=known,
            on_layer=finished,
        )
    if out is not None:
        write_ledger(rows, out, date=_today())
    if as_json:
        typer.echo(to_json(rows), nl=False)
    elif id is not None:
        _explain(rows[0], known)
    else:
        _print_table(rows)
    if not all(row.as_expected for row in rows):
        raise typer.Exit(1)


def _chosen(wanted: str | None) -> Sequence[Statement]:
    try:
        # The solvers are an optional extra: without them, say so instead of failing to import.
        statements: Sequence[Statement] = import_module("proofs.register").STATEMENTS
    except ModuleNotFoundError as error:
        if error.name in PACKAGES:
            raise MissingExtraError("brtheory prove", "proofs") from error
        raise
    if wanted is None:
        return statements
    chosen = [statement for statement in statements if statement.id.lower() == wanted.lower()]
    if not chosen:
        ids = ", ".join(statement.id for statement in statements)
        raise InputError("ID", f"one of {ids}", repr(wanted))
    return chosen


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()


def _print_table(rows: Sequence[Row]) -> None:
    table = Table("id", "claim", "verdict", "layers", "seconds", title="Statements")
    for row in rows:
        table.add_row(
            row.statement.id,
            escape(row.statement.claim),
            _coloured(row.verdict),
            escape("\n".join(layer.summary for layer in row.layers)),
            f"{row.seconds:.1f}",
        )
    console = Console()
    console.print(table)
    console.print(f"{len(rows)} statements: {verdict_counts(rows)}")
    for row in rows:
        for layer in row.surprises:
            found = layer.outcome
            detail = "" if found is None else f"{found.detail} {found.witness or ''}"
            console.print(f"[red]{row.statement.id}[/] {escape(f'{layer.summary}: {detail}')}")


def _explain(row: Row, known: Record) -> None:
    statement, console = row.statement, Console()
    console.print(f"[bold]{statement.id}  {escape(statement.title)}[/]  {_coloured(row.verdict)}")
    console.print(escape(statement.claim))
    console.print(f"  {escape(statement.latex)}", style="dim", highlight=False)
    for hypothesis in statement.hypotheses:
        console.print(f"needs   {escape(hypothesis)}")
    console.print(f"source  {escape(statement.source)}")
    last = known.get(statement.id)
    for name in sorted(last.code) if last is not None else ():
        console.print(f"about   {name}", highlight=False)
    for change in last.changes(statement) if last is not None else ():
        console.print(f"[red]since {last.date if last else ''}: {escape(change)}[/]")
    for layer in row.layers:
        console.print(f"[bold]{layer.summary}[/] ({escape(layer.scope)})")
        if layer.outcome is not None:
            console.print(f"  {escape(layer.outcome.detail)}, {layer.seconds:.2f} s")
            if layer.outcome.witness is not None:
                console.print(f"  {escape(layer.outcome.witness)}")


def _coloured(verdict: Verdict) -> str:
    colour = {"proved": "green", "checked": "cyan", "refuted": "yellow", "open": "red"}[verdict]
    return f"[{colour}]{verdict}[/]"
