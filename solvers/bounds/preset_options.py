"""Options of ``brtheory bound --preset``: an instance at production scale, and whose requests."""

from dataclasses import dataclass
from typing import Annotated

import typer

from brtheory.cli.trace_input import (
    ColumnsOption,
    End,
    OnErrorChoice,
    OnErrorOption,
    RequestOptions,
    Start,
    TraceFile,
    WorkloadName,
)
from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import Instance
from solvers.bounds.production import (
    PRESETS,
    REQUESTS,
    WORKLOAD,
    effective_requests,
    find_preset,
    placed_by,
    prompt_share,
)

PANEL = "Requests"
MOST_TRACE_REQUESTS = 20_000
"""Requests of a trace to choose from: traces can have tens of millions."""


@dataclass(frozen=True)
class About:
    """What an instance is made of.

    Parameters
    ----------
    preset
        Its name.
    trace, synthetic, dropped
        Where the requests come from, and the rows of the file dropped by reason.
    requests
        Requests in all.
    replicas, slots
        G, and the slots of each.
    active, effective
        Active requests a replica on average, and as many equal ones they are as hard to level as.
    prompt_share
        Share of the work that a router sees at arrival, 0 .. 1.
    """

    preset: str
    trace: str
    synthetic: bool
    dropped: dict[str, int]
    requests: int
    replicas: int
    slots: int
    active: int
    effective: float
    prompt_share: float

    @property
    def title(self) -> str:
        """The same in one line."""
        return (
            f"{self.preset} · {self.trace}{' (synthetic)' if self.synthetic else ''} · "
            f"{self.requests:,} requests · {self.replicas} replicas, each with {self.active} "
            f"active, like {self.effective:.1f} equal ones"
        )


@dataclass(frozen=True)
class Posed:
    """The instance of a preset, what a router does with it, and what it is made of."""

    instance: Instance
    assignment: Assignment
    about: About


@dataclass(frozen=True)
class PresetOptions:
    """Options of a command; without a preset none of the others may be given."""

    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="Instead of files: requests of --workload (if none is named, of the proprietary "
            "surrogate) or --trace at production scale, placed by --router. g8, g16: 8 or 16 "
            "replicas with 48 active requests each; g8-light, g16-light: with 16. --seed takes "
            "another sample of a workload, or starts elsewhere in a trace.",
        ),
    ] = None
    router: Annotated[
        str | None,
        typer.Option(
            "--router",
            help="With --preset: the router by name, with its default parameters; br0 (if none is "
            "named) takes the largest margin first.",
        ),
    ] = None
    workload: WorkloadName = None
    trace: TraceFile = None
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            min=1,
            help=f"With --preset: requests of the instance, {REQUESTS:,} if not given.",
            rich_help_panel=PANEL,
        ),
    ] = None
    on_error: OnErrorOption = OnErrorChoice.RAISE
    start: Start = None
    end: End = None
    columns: ColumnsOption = None

    def pose(self, *, seed: int) -> Posed | None:
        """Make the instance and have the router place it; None without a preset.

        Raises
        ------
        InputError
            If a name is unknown, the requests are too few or do not fit, or an option stands
            without the one it belongs to.
        """
        if self.preset is None:
            self._refuse_others()
            return None
        preset, count = find_preset(self.preset), self.requests or REQUESTS
        workload = WORKLOAD if self.workload is None and self.trace is None else self.workload
        source = RequestOptions(
            self.trace, workload, count if workload else max(MOST_TRACE_REQUESTS, count),
            on_error=self.on_error, start=self.start, end=self.end, columns=self.columns,
        )  # fmt: skip
        trace, dropped = source.load(seed=seed)
        instance = preset.instance(trace, requests=count, seed=seed)
        about = About(
            preset=self.preset,
            trace=trace.name,
            synthetic=trace.synthetic,
            dropped=dropped,
            requests=count,
            replicas=preset.replicas,
            slots=instance.slots,
            active=preset.active,
            effective=effective_requests(instance),
            prompt_share=prompt_share(instance),
        )
        return Posed(instance, placed_by(instance, self.router or "br0", seed=seed), about)

    def _refuse_others(self) -> None:
        given: dict[str, object] = {
            "--router": self.router,
            "--workload": self.workload,
            "--trace": self.trace,
            "--requests": self.requests,
            "--start": self.start,
            "--end": self.end,
            "--columns": self.columns,
            "--on-error": None if self.on_error is OnErrorChoice.RAISE else self.on_error.value,
        }
        for name, value in given.items():
            if value is not None:
                raise InputError(name, "--preset " + "|".join(PRESETS) + " beside it", value)
