"""Routers of a grid study: labels stay the same over cells whose automatic horizons differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from brtheory.routers.registry import find_router
from brtheory.simulation.run import RunConfig
from brtheory.simulation.workload import ClusterShape
from brtheory.study.choices import AUTO, Choice, resolve_choices
from brtheory.study.grid.document import Axis
from brtheory.study.grid.plan import ROUTER, axis
from brtheory.traces.schema import Trace


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large a grid study is.

    Parameters
    ----------
    seeds
        Runs a cell, >= 1.
    requests
        Requests of every run; None leaves it to the study.
    """

    seeds: int
    requests: int | None = None

    def requests_for(self, shape: ClusterShape, *, turns: int, least: int = 0) -> int:
        """``turns`` requests a slot and at least ``least``, unless a number was given."""
        return self.requests or max(least, turns * shape.replicas * shape.slots)


def resolve_router(text: str, trace: Trace, *, slots: int) -> Choice:
    """One router text on a trace; the label stays the text.

    Raises
    ------
    InputError
        If the router or a parameter is unknown.
    """
    mean = float(trace.output_tokens.mean())
    choice = resolve_choices([text], mean_output_tokens=mean, slots=slots)[-1]
    title = choice.title
    if choice.automatic:
        horizon = getattr(choice.params, "horizon", None)
        title = title.replace(f"H = {horizon}", f"H = {AUTO}")
    return replace(choice, label=text, title=title)


def routers_axis(choices: Mapping[str, Choice]) -> Axis:
    """The axis of routers, by label."""
    return axis(ROUTER, "router", {label: choice.title for label, choice in choices.items()})


def resolve_routers(texts: Sequence[str], trace: Trace, *, slots: int) -> dict[str, Choice]:
    """Several router texts by label, each once."""
    return {text: resolve_router(text, trace, slots=slots) for text in dict.fromkeys(texts)}


def told_truth(label: str) -> bool:
    """Whether a router of this label is told true output lengths."""
    return find_router(label.partition(":")[0]).needs_predictor and "predictor=" not in label


def configured(config: RunConfig, choice: Choice) -> RunConfig:
    """A run's configuration with another router."""
    return replace(
        config, router=choice.spec.name, params=choice.params, predictor=choice.predictor
    )
