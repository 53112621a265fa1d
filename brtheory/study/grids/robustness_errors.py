"""What `study robustness` makes wrong, kind by kind and size by size, as data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brtheory.simulation.perturbation import Perturbation
from brtheory.simulation.spec import ArrivalSpec
from brtheory.study.choices import BASELINE
from brtheory.study.grids.settings import SATURATED

KIND, SIZE = "kind", "size"
ORACLE, SURVIVAL = "brh", "brh:predictor=survival"
PREDICTING = (ORACLE, SURVIVAL)
PLAIN = "br0"
"""What predictions have to beat."""
ROUTERS = (BASELINE, "least-tokens", PLAIN, *PREDICTING, "window")
LIGHT_RHO = 0.8


@dataclass(frozen=True, kw_only=True)
class ErrorKind:
    """One thing that goes wrong, more and more.

    Parameters
    ----------
    name, title
        Value of the axis ``kind``, and a heading.
    x_label
        What the sizes are.
    neutral
        The size at which nothing is wrong.
    sizes
        The sizes tried, ascending, the neutral one included.
    of_predictions
        Whether it concerns predictions alone: BR-0 stands beside them, undisturbed.
    perturbation
        What a run has at a size.
    arrivals
        How requests arrive at a size.
    log_x
        Whether sizes are factors.
    """

    name: str
    title: str
    x_label: str
    neutral: float = 0.0
    sizes: Sequence[float]
    of_predictions: bool = False
    perturbation: Callable[[float], Perturbation] = lambda _size: Perturbation()
    arrivals: Callable[[float], ArrivalSpec] = lambda _size: SATURATED
    log_x: bool = False

    @property
    def routers(self) -> tuple[str, ...]:
        """The routers that are shown."""
        return (PLAIN, *PREDICTING) if self.of_predictions else ROUTERS

    @property
    def rival(self) -> str:
        """What a router has to beat to be worth having."""
        return PLAIN if self.of_predictions else BASELINE

    def perturbed(self, size: float, router: str) -> Perturbation | None:
        """What is wrong in a run; None for nothing, so that all kinds share these runs."""
        spared = self.of_predictions and router not in PREDICTING
        return None if spared or size == self.neutral else self.perturbation(size)


KINDS = (
    ErrorKind(
        name="noise",
        title="noise on predicted lengths",
        x_label="noise σ of the logarithm of predicted remaining steps",
        sizes=(0, 0.5, 1, 2),
        of_predictions=True,
        perturbation=lambda size: Perturbation(prediction_noise=size),
    ),
    ErrorKind(
        name="bias",
        title="bias of predicted lengths",
        x_label="factor on predicted remaining steps",
        neutral=1.0,
        sizes=(0.25, 1, 4),
        of_predictions=True,
        perturbation=lambda size: Perturbation(prediction_bias=size),
        log_x=True,
    ),
    ErrorKind(
        name="flips",
        title="verdicts turned round",
        x_label="share of verdicts 'ends within H steps' turned round",
        sizes=(0, 0.05, 0.2, 0.5),
        of_predictions=True,
        perturbation=lambda size: Perturbation(flip_rate=size),
    ),
    ErrorKind(
        name="stale",
        title="stale loads, own placements counted",
        x_label="steps by which loads are known late",
        sizes=(0, 8, 32, 64),
        perturbation=lambda size: Perturbation(stale_steps=round(size)),
    ),
    ErrorKind(
        name="stale-blind",
        title="stale loads, own placements not counted",
        x_label="steps by which loads are known late",
        sizes=(0, 8, 32, 64),
        perturbation=lambda size: Perturbation(stale_steps=round(size), keeps_book=False),
    ),
    ErrorKind(
        name="token-noise",
        title="noise on token counts",
        x_label="noise σ of the logarithm of prompt tokens",
        sizes=(0, 0.1, 0.2, 0.4, 0.8),
        perturbation=lambda size: Perturbation(token_noise=size),
    ),
    ErrorKind(
        name="token-bias",
        title="bias of token counts",
        x_label="factor on prompt tokens",
        neutral=1.0,
        sizes=(0.5, 1, 2),
        perturbation=lambda size: Perturbation(token_bias=size),
        log_x=True,
    ),
    ErrorKind(
        name="drift",
        title="drift of output lengths",
        x_label="share of requests that come shortest output first",
        sizes=(0, 0.25, 0.5, 1),
        perturbation=lambda size: Perturbation(drift=size),
    ),
    ErrorKind(
        name="bursts",
        title=f"bursts of arrivals at {100 * LIGHT_RHO:g} % load",
        x_label="arrival rate in a burst over the mean rate",
        neutral=1.0,
        sizes=(1, 2, 4, 8),
        arrivals=lambda size: ArrivalSpec("rho", LIGHT_RHO, size),
        log_x=True,
    ),
)


def all_sizes() -> list[float]:
    """Every size of any kind, ascending."""
    return sorted({float(size) for kind in KINDS for size in kind.sizes})
