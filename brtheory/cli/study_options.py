"""Options that all studies share: processes, Dask, and how the study was asked for."""

import shlex
import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from brtheory.errors import InputError
from brtheory.study.invocation import Invocation
from brtheory.study.workers import available_cores

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        help="Processes; default all cores. Results do not depend on it.",
        rich_help_panel="Study",
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Give the cells to the Dask scheduler at this address, e.g. tcp://host:8786, or to a "
        "Dask cluster of --jobs processes here (local). Results do not depend on it. Extra "
        "`cluster`. Default: a pool of processes.",
        rich_help_panel="Study",
        show_default=False,
    ),
]


def invocation(jobs: int | None, scheduler: str | None) -> Invocation:
    """How this process was asked for a study."""
    return Invocation(
        command=shlex.join(["brtheory", *sys.argv[1:]]),
        started=datetime.now(UTC),
        workers=jobs or available_cores(),
        scheduler=scheduler,
    )


def refuse_options_before(context: typer.Context) -> None:
    """Refuse options of ``brtheory study`` written before the name of another study.

    Raises
    ------
    InputError
        Naming the first such option: it would have no effect.
    """
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.removeprefix("as_").replace("_", "-")
            study = context.invoked_subcommand
            raise InputError(option, f"options after the name of the study {study}", "before it")
