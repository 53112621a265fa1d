"""Settings that studies share: requests on a cluster under a load, and routers across settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from brtheory.simulation.run import RunConfig
from brtheory.simulation.spec import ArrivalSpec
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study.choices import Choice
from brtheory.study.grid.contenders import Scale, configured, resolve_routers
from brtheory.study.grid.document import Value
from brtheory.study.grid.plan import ROUTER, Cell, run_cells
from brtheory.study.supply import Supply, WorkloadSupply
from brtheory.traces.scenarios import SCENARIOS

SETTING = "setting"
SATURATED = ArrivalSpec("closed", 1.5)
TURNS = 24
"""Requests per slot unless a setting says otherwise."""
EMBEDDED = {
    "azure-2023-conv": "Azure 2023 chat",
    "azure-2023-code": "Azure 2023 code",
    "azure-2024-long-output": "Azure 2024 long",
    "proprietary-surrogate": "paper's private",
    "mooncake-conversation": "Mooncake",
    "reasoning-r1": "reasoning R1",
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Requests, cluster and load of some cells.

    Parameters
    ----------
    name, title
        Value of the axis ``setting``, and how it is called.
    supply
        The requests.
    shape, step_time, arrivals
        As in a run.
    requests
        Requests of a run; None for ``TURNS`` a slot.
    """

    name: str
    title: str
    supply: Supply
    shape: ClusterShape
    step_time: StepTime = field(default_factory=StepTime)
    arrivals: ArrivalSpec = SATURATED
    requests: int | None = None

    def config(self) -> RunConfig:
        """A run under this setting, its router still to be chosen."""
        return RunConfig(
            router="jsq", shape=self.shape, arrivals=self.arrivals, step_time=self.step_time
        )

    def requests_at(self, scale: Scale) -> int:
        """Requests of a run at this scale."""
        return scale.requests or self.requests or scale.requests_for(self.shape, turns=TURNS)


def scenario_settings(names: Sequence[str]) -> list[Setting]:
    """Router scenarios by name, with the slots and the step time they are defined with."""
    return [
        Setting(
            name=scenario.name,
            title=scenario.name.upper(),
            supply=WorkloadSupply(scenario.name),
            shape=ClusterShape(scenario.replicas, scenario.slots),
            step_time=StepTime(a0=scenario.a0, b0=scenario.b0),
            requests=scenario.requests,
        )
        for scenario in (SCENARIOS[name] for name in names)
    ]


def embedded_settings(names: Sequence[str]) -> list[Setting]:
    """Embedded workloads on 8 replicas of 32 slots."""
    return [
        Setting(
            name=name,
            title=EMBEDDED.get(name, name),
            supply=WorkloadSupply(name),
            shape=ClusterShape(8, 32),
        )
        for name in names
    ]


def cluster_text(setting: Setting) -> str:
    """Cluster and step time in words."""
    shape, step = setting.shape, setting.step_time
    return (
        f"{shape.replicas} × {shape.slots} slots, step {1e3 * step.b0:g} ms + "
        f"{1e6 * step.a0:g} µs per token"
    )


def setting_routers(setting: Setting, routers: Sequence[str], scale: Scale) -> dict[str, Choice]:
    """The routers with what a setting decides, such as an automatic horizon."""
    trace = setting.supply.take(setting.requests_at(scale), seed=0)
    return resolve_routers(routers, trace, slots=setting.shape.slots)


def setting_cells(
    setting: Setting, routers: Sequence[str], scale: Scale, **labels: Value
) -> list[Cell]:
    """Every router under one setting, labelled by both and by ``labels``."""
    cells: list[Cell] = []
    for label, choice in setting_routers(setting, routers, scale).items():
        cells += run_cells(
            {SETTING: setting.name, **labels, ROUTER: label},
            configured(setting.config(), choice),
            setting.supply,
            requests=setting.requests_at(scale),
            seeds=scale.seeds,
        )
    return cells
