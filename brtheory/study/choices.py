"""Which routers a study compares, as users write them: ``jsq``, ``brh:horizon=7``.

``horizon=auto`` is the time between completions on a replica, about mean output / slots steps: the
horizon model-and-routers.md section 3 (c) asks for. ``predictor=survival`` beside the parameters of
a router that predicts gives it that predictor; without it, it is told the truth (oracle). JSQ is in
every study, because ratios are quoted against it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from brtheory.errors import InputError
from brtheory.prediction.auto_horizon import horizon_for_gap
from brtheory.prediction.registry import ONLINE_PREDICTORS
from brtheory.routers.params import LONGEST_HORIZON, params_from_text
from brtheory.routers.registry import RouterSpec, find_router, router_specs

BASELINE = "jsq"
AUTO = "auto"
ORACLE = "oracle"
DEFAULT_ROUTERS = (
    "random",
    "round-robin",
    "p2c",
    "jsq",
    "engine-score",
    "least-tokens",
    "pool-fifo",
    "br0",
    "brh:horizon=80",
    "brh:horizon=auto",
    "window",
)
TITLES = {
    "random": "Random",
    "round-robin": "Round robin",
    "p2c": "Power of two",
    "jsq": "JSQ",
    "engine-score": "Engine score",
    "least-tokens": "Least tokens",
    "pool-fifo": "Pooled FIFO",
    "br0": "BR-0",
    "brh": "BR-H",
    "window": "Window",
    "bf-io": "BF-IO",
}


@dataclass(frozen=True)
class Choice:
    """One router of a study with its parameters resolved.

    Parameters
    ----------
    label
        Unique in a study: the name and the parameters given, e.g. ``brh:horizon=7``.
    title
        For people, e.g. ``BR-H (oracle, H = 7)``.
    spec
        The router.
    params
        Validated parameters.
    automatic
        Whether the horizon was computed from the trace.
    predictor
        Name of the predictor of a router that needs one.
    """

    label: str
    title: str
    spec: RouterSpec
    params: object
    automatic: bool = False
    predictor: str = ORACLE

    @property
    def oracle(self) -> bool:
        """Whether it is told true output lengths."""
        return self.spec.needs_predictor and self.predictor == ORACLE


def default_routers() -> tuple[str, ...]:
    """The routers of a study that names none: those of the list that are registered."""
    known = router_specs()
    return tuple(text for text in DEFAULT_ROUTERS if text.split(":")[0] in known)


def resolve_choices(
    texts: Sequence[str], *, mean_output_tokens: float, slots: int
) -> tuple[Choice, ...]:
    """Resolve names and parameters; JSQ is added where missing, repetitions are dropped.

    Parameters
    ----------
    texts
        ``name`` or ``name:key=value:key=value``.
    mean_output_tokens, slots
        Give ``horizon=auto``.

    Raises
    ------
    InputError
        If a router or parameter is unknown or out of range.
    """
    horizon = near_horizon(mean_output_tokens, slots=slots)
    choices = [_resolve(text, horizon=horizon) for text in texts]
    if all(choice.label != BASELINE for choice in choices):
        choices.insert(0, _resolve(BASELINE, horizon=horizon))
    first: dict[str, Choice] = {}
    for choice in choices:
        first.setdefault(choice.label, choice)
    return tuple(first.values())


def with_predictor(choices: Sequence[Choice], predictor: str) -> tuple[Choice, ...]:
    """The choices, each that predicts followed by itself with another predictor.

    Raises
    ------
    InputError
        If the predictor is unknown.
    """
    check_predictor(predictor)
    pairs = [
        (choice, _predicted(choice, predictor)) if choice.oracle else (choice,)
        for choice in choices
    ]
    return tuple({c.label: c for pair in pairs for c in pair}.values())


def check_predictor(name: str) -> None:
    """Refuse a predictor that does not exist; files of models are looked at when they are read.

    Raises
    ------
    InputError
        If it is none.
    """
    if name != ORACLE and name.partition(":")[0] not in ONLINE_PREDICTORS:
        names = ", ".join((ORACLE, *ONLINE_PREDICTORS))
        raise InputError("--predictor", f"one of {names}, learned:FILE", repr(name))


def near_horizon(mean_output_tokens: float, *, slots: int) -> int:
    """H nearest the steps between two completions on a replica whose slots are full.

    At least 1, and no longer than a router can look (LONGEST_HORIZON). Each of B requests ends
    within its o_i steps, so one in about mean(o) / B steps.
    """
    return horizon_for_gap(mean_output_tokens / slots, factor=1.0, longest=LONGEST_HORIZON)


def _resolve(text: str, *, horizon: int) -> Choice:
    name, *pairs = (part.strip() for part in text.split(":"))
    spec = find_router(name)
    given = _pairs(pairs, text)
    predictor = given.pop("predictor", ORACLE)
    check_predictor(predictor)
    if predictor != ORACLE and not spec.needs_predictor:
        raise InputError(f"--routers {name}", "no predictor: it predicts nothing", predictor)
    automatic = given.get("horizon") == AUTO
    if automatic:
        given["horizon"] = str(horizon)
    params: object = params_from_text(spec.params, given, where=f"--routers {name}")
    label = ":".join([name, *(f"{key}={value}" for key, value in given.items())])
    choice = Choice(label, _title(spec, params, given), spec, params, automatic)
    return _predicted(choice, predictor)


def _predicted(choice: Choice, predictor: str) -> Choice:
    """A choice that so far is told the truth, with a predictor instead."""
    if predictor == ORACLE:
        return choice
    return replace(
        choice,
        label=f"{choice.label}:predictor={predictor}",
        title=choice.title.replace(f"({ORACLE}", f"({predictor}"),
        predictor=predictor,
    )


def _pairs(pairs: Sequence[str], text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise InputError("--routers", "NAME or NAME:KEY=VALUE:KEY=VALUE", repr(text))
        name = key.strip().replace("-", "_")
        if name in given:
            raise InputError("--routers", "each parameter once", f"{name} twice in {text!r}")
        given[name] = value.strip()
    return given


def _title(spec: RouterSpec, params: object, given: Mapping[str, str]) -> str:
    notes = [ORACLE] if spec.needs_predictor else []
    names = {field.name for field in fields(spec.params)}
    if "horizon" in names:
        notes.append(f"H = {getattr(params, 'horizon', None)}")
    notes += [f"{key} = {value}" for key, value in given.items() if key != "horizon"]
    title = TITLES.get(spec.name, spec.name)
    return f"{title} ({', '.join(notes)})" if notes else title
