"""The ``brtheory`` command: assembles the commands and turns errors into exit codes.

Exit codes: 0 success, 1 the answer is no (an infeasible assignment, a refuted certificate),
2 bad input or a missing optional package, 130 interrupted. Errors are one line on standard error;
``--debug`` shows the traceback instead.

Every command is an entry point of the group ``brtheory.commands``: a Typer app (a group) or a
function (a command). Other packages of the distribution add theirs the same way.
"""

import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from brtheory.errors import BrtheoryError

BAD_INPUT = 2
INTERRUPTED = 130
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
    help="Barrier-aware routing for data-parallel LLM decode.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Answer one question: how much does decode lose at the step barrier, and what gets it back."""
    del debug, show_version  # main() reads both before the command line is parsed


def main() -> None:
    """Run the command line; every expected failure is one line and an exit code."""
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    if arguments == ["--version"]:
        typer.echo(f"brtheory {version('brtheory')}")
        return
    try:
        code = app(args=arguments, standalone_mode=False)
    except USAGE_ERROR as error:
        _report_usage(error)
        sys.exit(BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, a pager) has gone; nothing is left to say, not even at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (BrtheoryError, OSError) as error:
        if debug:
            raise
        typer.echo("error: " + " ".join(str(error).split()), err=True)
        sys.exit(BAD_INPUT)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _report_usage(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = error.ctx.command_path if error.ctx is not None else "brtheory"
    message = " ".join(error.format_message().split())
    typer.echo(f"error: {message} (see {command} --help)", err=True)


def _as_command(loaded: typer.Typer | Callable[..., Any], name: str) -> Any:
    if isinstance(loaded, typer.Typer):
        group = loaded
    else:
        group = typer.Typer(
            add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
        )
        group.command(name=name)(loaded)
    command = typer.main.get_command(group)
    command.name = name
    return command
