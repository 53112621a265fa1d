"""The ``brtheory`` command: assembles the commands and turns errors into exit codes.

``brtheory --help`` states the exit codes. Errors are one line on standard error; ``--debug`` shows
the traceback instead.

Every command is an entry point of the group ``brtheory.commands``: a Typer app (a group) or a
function (a command). Other packages of the distribution add theirs the same way.
"""

import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from brtheory.cli.__main__ import INTERRUPTED
from brtheory.errors import BrtheoryError

BAD_INPUT = 2
USAGE_ERROR: type[Any] = typer.BadParameter.__bases__[0]
"""The base of command-line mistakes, which Typer keeps but does not export."""


class LazyGroup(TyperGroup):
    """Loads a command's module only when that command is asked for, so that start-up stays fast."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the entry points, sorted."""
        del ctx
        return sorted(entry_points(group="brtheory.commands").names)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one command, None if there is none of this name."""
        del ctx
        for entry in entry_points(group="brtheory.commands", name=cmd_name):
            return _as_command(entry.load(), cmd_name)
        return None


app = typer.Typer(
    cls=LazyGroup,
    name="brtheory",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Route LLM decode behind a step barrier: what the barrier costs, and what gets it back.

    Start with `brtheory study`, which needs no file: routers side by side on a workload, and a page
    about it. `brtheory COMMAND --help` says what a command takes; most print one JSON object
    with --json.

    Exit codes: 0 done; 1 the answer is no (an infeasible assignment, a refuted certificate, a
    failed proof, streams cut at the end); 2 bad input or a missing optional package, in one line on
    standard error; 130 interrupted.
    """
    del debug, show_version  # main() reads both before the command line is parsed


def main() -> None:
    """Run the command line; every expected failure is one line and an exit code."""
    _open_missing_streams()
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        code = _run(arguments)
    except USAGE_ERROR as error:
        _report_usage(error)
        sys.exit(BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, a pager) has gone; nothing is left to say, not even at shutdown.
        _discard_output()
    except (BrtheoryError, OSError, MemoryError) as error:
        if debug:
            raise
        _discard_output()
        typer.echo("error: " + _one_line(_message(error)), err=True)
        sys.exit(BAD_INPUT)
    else:
        sys.exit(code)


def _open_missing_streams() -> None:
    """Put the null device where the shell closed a stream (``<&-``, ``>&-``).

    Else the next file to be opened would become standard output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  # for good
            setattr(sys, name, null)


def _run(arguments: list[str]) -> int:
    """Exit code of one command whose output has reached the system."""
    if arguments == ["--version"]:
        typer.echo(f"brtheory {version('brtheory')}")
        code = 0
    else:
        code = app(args=arguments, standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _discard_output() -> None:
    """Drop what standard output still buffers where it cannot take it, so that exit is silent."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"memory: expected enough for this input, got {str(error) or 'too little'}"
    if isinstance(error, OSError) and not isinstance(error, BrtheoryError):
        where = "standard input or output" if error.filename is None else str(error.filename)
        reason = (error.strerror or str(error)).lower()
        return f"{where}: expected a file that can be used here, got {reason}"
    return str(error)


def _one_line(text: str) -> str:
    """Make foreign text harmless: no line ends, no control characters for the terminal."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _report_usage(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = error.ctx.command_path if error.ctx is not None else "brtheory"
    message = _one_line(error.format_message())
    typer.echo(f"error: {message} (see {command} --help)", err=True)


def _as_command(loaded: typer.Typer | Callable[..., Any], name: str) -> Any:
    if isinstance(loaded, typer.Typer):
        group = loaded
    else:
        group = typer.Typer(
            add_completion=False,
            context_settings={"help_option_names": ["-h", "--help"]},
            rich_markup_mode="markdown",  # paragraphs flow, whatever the width of the terminal
        )
        group.command(name=name)(loaded)
    command = typer.main.get_command(group)
    command.name = name
    return command
