"""Validated parameters of the routers, from Python, ``--param k=v`` or JSON."""

import inspect
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from brtheory.errors import InputError
from brtheory.prediction.contribution import GATE
from brtheory.prediction.projection_rules import ProjectionRules

_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)

LARGEST_SUBSET = 12
LONGEST_HORIZON = 4096
LARGEST_WINDOW = 1 << 16
LARGEST_MEMORY = 1 << 16
LARGEST_OVERFLOW_WEIGHT = 1024

P = TypeVar("P")


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class NoParams:
    """A router without parameters."""


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class BalanceRouteParams:
    """Parameters of BR-0 (model-and-routers.md section 3).

    Parameters
    ----------
    greedy_threshold
        S_greedy >= 0: stage 1 runs while S_tot exceeds it; None is G.
    max_subset
        R_max, 1 .. 12: candidates of a stage-2 subset.
    key_order
        Which replica comes first: most free slots then margin (the paper), or margin then slots.
    candidate_order
        Which R_max requests of the pool are stage-2 candidates.
    stage1
        Which request stage 1 takes: the largest (F, prompt), or the longest prompt.
    """

    greedy_threshold: Annotated[int, Field(ge=0)] | None = None
    max_subset: Annotated[int, Field(ge=1, le=LARGEST_SUBSET)] = 4
    key_order: Literal["slots-first", "margin-first"] = "slots-first"
    candidate_order: Literal["oldest", "newest", "largest"] = "oldest"
    stage1: Literal["f-score", "longest"] = "f-score"


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class ProjectionParams:
    """How predictions become the projected loads a router with a horizon looks at.

    Parameters
    ----------
    gate
        Below this p_finish a running request counts as staying; None is no gate.
    refresh
        Steps of a request's life between two predictions for it; None is H / 2.
    growth
        Whether projected requests gain a token a step, or completions alone change the loads.
    """

    gate: Annotated[float, Field(ge=0, le=1)] | None = GATE
    refresh: Annotated[int, Field(ge=1, le=LONGEST_HORIZON)] | None = None
    growth: Literal["on", "off"] = "on"

    @property
    def projection(self) -> ProjectionRules:
        """The three as the rules that simulator and proxy project by."""
        return ProjectionRules(self.gate, self.refresh, self.growth == "on")


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class HorizonParams(ProjectionParams, BalanceRouteParams):
    """Parameters of BR-H; those of the projection are ``ProjectionParams``.

    Parameters
    ----------
    horizon
        H, steps looked ahead; ``auto`` follows the measured steps between completions on a
        replica (``brtheory.prediction.auto_horizon``).
    discount
        gamma in (0, 1].
    reward_weight
        alpha > 0.
    overflow_weight
        beta >= 0; None is G, the number of live replicas.
    score
        What an admitted request weighs over the horizon: its prompt at every step (``constant``,
        the paper), or prompt + h until it is predicted to end (``exact``,
        ``brtheory.routers.growing``).
    """

    horizon: Annotated[int, Field(ge=0, le=LONGEST_HORIZON)] | Literal["auto"] = 80
    discount: Annotated[float, Field(gt=0, le=1)] = 1.0
    reward_weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    overflow_weight: Annotated[float, Field(ge=0, le=1e9)] | None = None
    score: Literal["constant", "exact"] = "constant"


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class BalanceFutureParams(ProjectionParams):
    """Parameters of ``bf-io``; the defaults are those of its authors' published program.

    Parameters
    ----------
    horizon
        H, steps looked ahead.
    discount
        gamma in (0, 1].
    overflow_weight
        beta >= 0; None is G, the number of live replicas.
    greedy_threshold
        Requests are placed one by one while there are more free slots than this in all.
    candidates
        The oldest requests of the pool that are looked at.
    """

    horizon: Annotated[int, Field(ge=0, le=LONGEST_HORIZON)] = 72
    discount: Annotated[float, Field(gt=0, le=1)] = 0.86
    overflow_weight: Annotated[float, Field(ge=0, le=1e9)] | None = 43.0
    greedy_threshold: Annotated[int, Field(ge=0)] = 7
    candidates: Annotated[int, Field(ge=1, le=LARGEST_WINDOW)] = 1024
    growth: Literal["on", "off"] = "off"


@dataclass(frozen=True, kw_only=True, config=_CONFIG)
class WindowParams:
    """Parameters of the window router (model-and-routers.md section 5).

    Parameters
    ----------
    window
        K, the oldest requests of the pool that are looked at.
    wait_weight
        lambda >= 0, tokens a second of waiting is worth; None is ``wait_scale`` * mean prompt /
        mean wait.
    wait_scale
        Factor >= 0 on the lambda that is learned.
    size_weight
        By how much lambda grows with each mean prompt that a prompt is longer than the mean, >= 0.
    overflow_weight
        Cost of a token beyond the fullest load M, on top of its distance to the target, >= 0.
    spare_order
        While there are at least as many free slots as requests: the ``longest`` first, or by
        the same key as otherwise (``fit``).
    hold_s
        Seconds, >= 0: a request younger than this is not admitted where it would raise M while a
        lighter replica has no slot to offer; 0 never holds. Where the mean wait is over half of
        it none is held either.
    age_limit
        Median waits after which a request goes first; None is no limit.
    age_floor_s
        Seconds, >= 0: the age limit is never shorter, however short the median wait.
    memory
        Admitted requests from which mean prompt, mean wait and median wait are measured.
    room_share
        Where KV capacity is limited: a replica is served only while its free KV is at least this
        share, 0 .. 1, of the mean reservation of the K oldest requests; 0 serves whatever fits.
    """

    window: Annotated[int, Field(ge=1, le=LARGEST_WINDOW)] = 256
    wait_weight: Annotated[float, Field(ge=0, le=1e12)] | None = None
    wait_scale: Annotated[float, Field(ge=0, le=1e6)] = 1.15
    size_weight: Annotated[float, Field(ge=0, le=1e6)] = 0.3
    overflow_weight: Annotated[int, Field(ge=0, le=LARGEST_OVERFLOW_WEIGHT)] = 2
    spare_order: Literal["longest", "fit"] = "longest"
    hold_s: Annotated[float, Field(ge=0, le=1e9)] = 3.0
    age_limit: Annotated[float, Field(gt=0, le=1e9)] | None = 16.0
    age_floor_s: Annotated[float, Field(ge=0, le=1e9)] = 30.0
    memory: Annotated[int, Field(ge=1, le=LARGEST_MEMORY)] = 1024
    room_share: Annotated[float, Field(ge=0, le=1)] = 0.0


def params_from_json(kind: type[P], values: Mapping[str, Any], *, where: str) -> P:
    """Check a JSON object of parameters strictly (``4`` is an integer, ``"4"`` is not).

    Raises
    ------
    InputError
        If a parameter is unknown or out of range.
    """
    try:
        # JSON mode: strict about numbers, yet an object may stand for the dataclass.
        return TypeAdapter(kind).validate_json(json.dumps(dict(values)), strict=True)
    except ValidationError as error:
        raise _input_error(error, kind, where) from error


def params_from_text(kind: type[P], values: Mapping[str, str], *, where: str) -> P:
    """Check parameters given as text on the command line; the text ``none`` is None.

    Raises
    ------
    InputError
        If a parameter is unknown, does not parse, or is out of range.
    """
    given = {key: None if text.lower() == "none" else text for key, text in values.items()}
    try:
        return TypeAdapter(kind).validate_python(given, strict=False)
    except ValidationError as error:
        raise _input_error(error, kind, where) from error


def _input_error(error: ValidationError, kind: type[object], where: str) -> InputError:
    errors = error.errors(include_url=False)
    first = errors[0]
    name = str(first["loc"][0]) if first["loc"] else "params"
    if first["type"] == "unexpected_keyword_argument":
        known = ", ".join(inspect.signature(kind).parameters) or "it has none"
        return InputError(where, f"a parameter of this router ({known})", name)
    # A parameter of several types has an error for each.
    allowed = [one["msg"] for one in errors if one["loc"][:1] == first["loc"][:1]]
    expected = " or ".join(
        (msg[0].lower() + msg[1:]).removeprefix("input should be ") for msg in allowed
    )
    return InputError(f"{where}.{name}", expected, first["input"])
