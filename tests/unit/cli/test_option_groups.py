"""Groups of options: a command of groups takes the options of a command without them."""

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import typer
from typer.testing import CliRunner

from brtheory.cli.option_groups import grouped

Count = Annotated[int, typer.Option("--count", min=1)]


@dataclass(frozen=True)
class Size:
    """Two options."""

    count: Count = 3
    as_json: Annotated[bool, typer.Option("--json")] = False


@grouped
def command(
    first: Annotated[str, typer.Argument()],
    size: Size,
    last: Annotated[float, typer.Option()] = 0.5,
) -> None:
    """Say what came."""
    typer.echo(f"{first} {size} {last}")


app = typer.Typer()
app.command()(command)


def test_a_group_stands_where_its_parameter_stood_and_keeps_its_defaults():
    flat = signature(command).parameters
    assert list(flat) == ["first", "count", "as_json", "last"]
    assert [flat[name].default for name in ("count", "as_json", "last")] == [3, False, 0.5]
    assert command.__doc__ == "Say what came."


def test_the_command_gets_its_group_whole():
    done = CliRunner().invoke(app, ["a", "--count", "7", "--json"])
    assert done.output == f"a {Size(7, as_json=True)} 0.5\n"
    assert CliRunner().invoke(app, ["a"]).output == f"a {Size()} 0.5\n"


def test_the_range_of_an_option_in_a_group_is_checked():
    done = CliRunner().invoke(app, ["a", "--count", "0"])
    assert done.exit_code == 2
    assert "--count" in done.output
