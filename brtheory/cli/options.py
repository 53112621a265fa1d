"""Options that several commands share, and the parsing of ``--param``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from brtheory.errors import InputError
from brtheory.routers.params import params_from_text
from brtheory.routers.registry import RouterSpec

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
RouterName = Annotated[
    str,
    typer.Option(
        "--router",
        help="Router by name: random, round-robin, p2c, jsq, engine-score, least-tokens, "
        "pool-fifo, br0, brh, bf-io, window; exact-tick and bf-io-exact solve each tick exactly.",
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param", metavar="K=V", help="A parameter of the router, e.g. horizon=7; repeatable."
    ),
]
PredictorName = Annotated[
    str,
    typer.Option(
        "--predictor",
        help="For routers with a horizon: oracle (true lengths), survival, exact-match, learned or "
        "learned:MODEL.npz (see `brtheory predict train`).",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
InputFile = Annotated[
    Path, typer.Argument(help="JSON file (its form: `brtheory schema`).", show_default=False)
]


def parse_params(spec: RouterSpec, given: Sequence[str] | None) -> object:
    """Validated parameters of a router from ``K=V`` texts.

    Raises
    ------
    InputError
        If a text has no ``=``, or a parameter is unknown, given twice or out of range.
    """
    values = key_value_pairs(given or (), where="--param")
    return params_from_text(spec.params, values, where=f"--param of {spec.name}")


def key_value_pairs(given: Sequence[str], *, where: str) -> dict[str, str]:
    """Texts ``K=V`` as names and values; dashes in names are underscores.

    Raises
    ------
    InputError
        If a text has no ``=``, or a name is given twice.
    """
    values: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(where, "K=V", repr(text))
        name = key.strip().replace("-", "_")
        if name in values:
            raise InputError(where, "each parameter once", f"{name} twice")
        values[name] = value.strip()
    return values
