"""The picture of a step-time fit: measured steps, the line, and what the line leaves."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brtheory.analysis.step_records import StepRecords
from brtheory.analysis.step_time_fit import OUTLIER_SCALES, StepFit
from brtheory.traces.figure import BLUE, GREY, VERMILION

MILLI = 1000.0
MOST_POINTS = 5000
"""Steps drawn, spread evenly over the file; outliers are all drawn."""


def step_fit_figure(records: list[StepRecords], fits: list[StepFit]) -> Figure:
    """Draw each replica's steps above their residuals."""
    figure = Figure(figsize=(6 * len(fits), 6.5), layout="constrained")
    axes = figure.subplots(2, len(fits), height_ratios=[2, 1], squeeze=False, sharex="col")
    for column, (record, fit) in enumerate(zip(records, fits, strict=True)):
        _draw_steps(axes[0, column], record, fit)
        _draw_residuals(axes[1, column], record, fit)
    return figure


def _draw_steps(axes: Axes, record: StepRecords, fit: StepFit) -> None:
    shown = _shown(fit)
    axes.plot(
        record.max_load[shown], MILLI * record.seconds[shown], ".", color=BLUE, alpha=0.4,
        label=f"{fit.steps:,} steps",
    )  # fmt: skip
    far = fit.outliers
    if len(far):
        label = f"{len(far):,} outliers"
        axes.plot(record.max_load[far], MILLI * record.seconds[far], "x", color=VERMILION,
                  label=label)  # fmt: skip
    ends = np.array([record.max_load.min(), record.max_load.max()])
    line = f"{MILLI * fit.b0.value:.3g} ms + {1e6 * fit.a0.value:.3g} us/token"
    axes.plot(ends, MILLI * (fit.b0.value + fit.a0.value * ends), color="black", label=line)
    # Dollar signs would start a formula.
    axes.set_title("all records" if record.replica is None else record.replica.replace("$", r"\$"))
    axes.set_ylabel("step, ms")
    axes.legend(frameon=False)


def _draw_residuals(axes: Axes, record: StepRecords, fit: StepFit) -> None:
    """Outliers are above, to scale; here they would leave the others a line."""
    shown, reach = _shown(fit), MILLI * OUTLIER_SCALES * fit.scale_s
    axes.axhline(0, color="black")
    axes.plot(record.max_load[shown], MILLI * fit.residual_s[shown], ".", color=BLUE, alpha=0.4)
    for sign in (-1, 1):
        axes.axhline(sign * MILLI * fit.scale_s, color=GREY, linestyle="--")
    axes.set(xlabel="largest load, KV tokens", ylabel="residual, ms", ylim=(-reach, reach))


def _shown(fit: StepFit) -> slice:
    return slice(None, None, max(1, fit.steps // MOST_POINTS))
