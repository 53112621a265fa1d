"""Bars per router with 95 % intervals: imbalance, idle share, change in throughput."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from brtheory.study import wording
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.results import Estimate, RouterFacts, StudyDocument


@dataclass(frozen=True)
class Bar:
    """One bar: title, length, ends of the interval where known, text beside it, colour."""

    title: str
    value: float
    low: float | None
    high: float | None
    text: str
    colour: str


def imbalance_bars(document: StudyDocument) -> Drawing:
    """Mean imbalance in thousands of tokens."""
    bars = _bars(document, "imbalance_mean_tokens", lambda e: (e.mean, e.low, e.high), scale=1e-3)
    return bar_drawing(
        bars,
        name="imbalance",
        title="Load imbalance",
        axis="imbalance, thousand KV tokens",
        caption="Mean of G × max − sum; shorter is better. Lines are 95 % intervals over seeds.",
    )


def idle_bars(document: StudyDocument) -> Drawing:
    """Barrier idle fraction in percent."""
    bars = _bars(document, "barrier_idle_fraction", lambda e: (e.mean, e.low, e.high), scale=100)
    return bar_drawing(
        bars,
        name="idle",
        title="Idle at the barrier",
        axis="idle share of load-dependent work, %",
        caption="Shorter is better. What G replicas could have done while the fullest one worked.",
    )


def throughput_bars(document: StudyDocument) -> Drawing:
    """Change in throughput against JSQ in percent."""
    bars = _bars(document, "throughput_tokens_per_s", _change, scale=100, signed=True)
    return bar_drawing(
        [bar for bar in bars if bar.title != "JSQ"],
        name="throughput",
        title="Throughput against JSQ",
        axis="change in tokens per second, %",
        caption="Right of zero is better than JSQ. The gain depends on the step-time model.",
    )


def bar_drawing(bars: Sequence[Bar], *, name: str, title: str, axis: str, caption: str) -> Drawing:
    """Horizontal bars with intervals, one a router, the first on top."""
    listed = "; ".join(f"{bar.title} {bar.text}" for bar in bars)
    alt = f"Bar chart, {axis}: {listed or wording.NONE}."
    with canvas.sheet(height=0.8 + 0.28 * max(len(bars), 1)) as (figure, (panel,)):
        _draw(panel, bars)
        panel.set_xlabel(axis)
        svg = canvas.svg_text(figure, name=name, alt=alt)
    return Drawing(name, title, caption, alt, svg)


def router_colour(facts: RouterFacts) -> str:
    """Colour by kind: the baseline, score-based routers, those with an oracle, the rest."""
    if facts.label == "jsq":
        return canvas.BASELINE
    if facts.oracle:
        return canvas.ORACLE
    plain = facts.family == "immediate" or facts.label == "pool-fifo"
    return canvas.PLAIN if plain else canvas.SCORE


Reading = tuple[float | None, float | None, float | None]


def _change(estimate: Estimate) -> Reading:
    ends = (estimate.ratio_to_jsq, estimate.ratio_low, estimate.ratio_high)
    value, low, high = (None if end is None else end - 1 for end in ends)
    return value, low, high


def _bars(
    document: StudyDocument,
    metric: str,
    read: Callable[[Estimate], Reading],
    *,
    scale: float,
    signed: bool = False,
) -> list[Bar]:
    bars = []
    for facts in document.routers:
        estimate = document.estimate(facts.label, metric)
        value, low, high = (None, None, None) if estimate is None else read(estimate)
        if value is None:
            continue
        text = _text(scale * value, signed=signed)
        low, high = (None if end is None else scale * end for end in (low, high))
        bars.append(Bar(facts.title, scale * value, low, high, text, router_colour(facts)))
    return bars


def _text(value: float, *, signed: bool) -> str:
    rounded = round(value, 1) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if signed and rounded else ''}.1f}".replace("-", "−")


def _draw(panel: Axes, bars: Sequence[Bar]) -> None:
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)
    span = max((abs(bar.high if bar.high is not None else bar.value) for bar in bars), default=1)
    for place, bar in enumerate(bars):
        panel.barh(place, bar.value, height=0.62, color=bar.colour)
        tip = bar.value
        if bar.low is not None and bar.high is not None:
            panel.plot([bar.low, bar.high], [place, place], color=canvas.INK, linewidth=1)
            tip = max(bar.high, 0)
        panel.text(max(tip, 0) + 0.03 * span, place, bar.text, va="center", fontsize=9.5)
    panel.axvline(0, color=canvas.MUTED, linewidth=0.8)
    panel.set_yticks(range(len(bars)), [bar.title for bar in bars])
    panel.margins(x=0.16, y=0.02)
    if all(bar.value >= 0 and not bar.text.startswith("+") for bar in bars):
        panel.set_xlim(left=0, right=None if span else 1)
    panel.invert_yaxis()
