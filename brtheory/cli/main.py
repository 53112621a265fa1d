"""The ``brtheory`` command: assembles the commands and turns errors into exit codes.

Exit codes: 0 success, 1 the answer is no (an infeasible assignment, a refuted certificate),
2 bad input or a missing optional package, 130 interrupted. Errors are one line on standard error;
``--debug`` shows the traceback instead.

Other packages of the distribution add commands through the entry-point group
``brtheory.commands``: each entry point is a Typer app (a group) or a function (a command).
"""

import sys
from importlib.metadata import entry_points, version
from typing import Annotated

import click
import typer

from brtheory.errors import BrtheoryError

BAD_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(
    name="brtheory",
    help="Barrier-aware routing for data-parallel LLM decode.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"brtheory {version('brtheory')}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Answer one question: how much does decode lose at the step barrier, and what gets it back."""
    del debug, show_version  # read by main() and by the callback


def _register_commands() -> None:
    for entry in sorted(entry_points(group="brtheory.commands"), key=lambda entry: entry.name):
        command = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(name=entry.name)(command)


def main() -> None:
    """Run the command line; every expected failure is one line and an exit code."""
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        _register_commands()
        code = app(args=arguments, standalone_mode=False)
    except BrtheoryError as error:
        _fail(error, debug=debug)
    except click.exceptions.Abort:
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        _fail(error, debug=debug)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(error: Exception, *, debug: bool) -> None:
    if debug:
        raise error
    message = " ".join(str(error).split())
    typer.echo(f"error: {message}", err=True)
    sys.exit(BAD_INPUT)
