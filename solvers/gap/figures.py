"""Figures of the gap report: where gaps lie, what decisions cost, what waiting buys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.wording import percent
from solvers.gap.document import CaseFacts, GapDocument, GapFacts, HoldFacts, RouterFacts
from solvers.gap.hold import HOLDS
from solvers.gap.policies import ORACLE, find_policy
from solvers.gap.shares import PARTS, mean_shares

BUSY, UNLIMITED = "busy", "any"
RULES = (*map(str, HOLDS), UNLIMITED, BUSY)
"""Of waiting, in the order of the axis."""
MARKS = "osD^vP"
MOST_NAMES = 6
"""Curves that are named in the drawing; of more, the alternative text tells the names."""
SPREAD = 0.5
"""Height of a row of marks, in rows."""


@dataclass(frozen=True)
class Yardstick:
    """One kind of gap.

    Parameters
    ----------
    name, title, axis, caption
        As on the page.
    read
        The gap of a policy on an instance, None where there is nothing to compare with.
    """

    name: str
    title: str
    axis: str
    caption: str
    read: Callable[[RouterFacts], GapFacts | None]


YARDSTICKS = (
    Yardstick(
        "time-same",
        "Barrier time, same admissions",
        "above the best replicas, %",
        "What the choice of replicas alone costs, at the policy's own admission steps.",
        lambda facts: facts.same_admissions.barrier_time,
    ),
    Yardstick(
        "imbalance-same",
        "Imbalance, same admissions",
        "above the best replicas, %",
        "The same choice measured in G × max − sum. An optimum of 0 has no ratio.",
        lambda facts: facts.same_admissions.imbalance,
    ),
    Yardstick(
        "time-conserving",
        "Barrier time, work-conserving",
        "above the fastest work-conserving schedule, %",
        "Against schedules in which nobody waits beside a free slot, known lengths. Left of 0: a "
        "policy that gained by waiting.",
        lambda facts: None if facts.work_conserving is None else facts.work_conserving.barrier_time,
    ),
    Yardstick(
        "time-any",
        "Barrier time, any admissions",
        "above the fastest schedule, %",
        "Against every schedule that serves all requests, even one that waits for the last.",
        lambda facts: facts.any_admissions.barrier_time,
    ),
)


def gap_strips(document: GapDocument, yardstick: Yardstick) -> Drawing:
    """One row a policy, one mark an instance: a dot where proved, a line where an interval."""
    rows = [(name, _gaps(document, name, yardstick)) for name in document.settings.routers]
    alt = f"Strip chart, {yardstick.title}, per cent {yardstick.axis.removesuffix(', %')}: "
    alt += "; ".join(f"{name} {_described(gaps)}" for name, gaps in rows) + "."
    with canvas.sheet(height=0.95 + 0.36 * len(rows)) as (figure, (panel,)):
        for place, (name, gaps) in enumerate(rows):
            _draw_row(panel, gaps, place=place, colour=policy_colour(name))
        panel.set_yticks(range(len(rows)), [name for name, _ in rows])
        panel.set_xlabel(yardstick.axis)
        _finish_rows(panel)
        svg = canvas.svg_text(figure, name=yardstick.name, alt=alt)
    caption = (
        f"{yardstick.caption} A dot is proved; a line is an interval that holds the gap, an "
        "arrow one whose upper end is unknown; the upright stroke is the median of the lower ends."
    )
    return Drawing(yardstick.name, yardstick.title, caption, alt, svg)


def cost_bars(document: GapDocument) -> Drawing | None:
    """Mean share of BR-0's barrier time that each kind of decision costs; None if not measured."""
    shares = {name: share for name, share in mean_shares(document).items() if share is not None}
    if not shares:
        return None
    alt = "Bar chart, mean share of BR-0's barrier time: " + "; ".join(
        f"{PARTS[name].title} {_between(*share.ends)}" for name, share in shares.items()
    )
    with canvas.sheet(height=0.8 + 0.34 * len(shares)) as (figure, (panel,)):
        for place, share in enumerate(shares.values()):
            low, high = share.ends
            panel.barh(place, 100 * low, height=0.5, color=canvas.SCORE)
            if high != low:
                panel.plot([100 * low, 100 * high], [place, place], color=canvas.INK, linewidth=2)
        panel.set_yticks(range(len(shares)), [PARTS[name].title for name in shares])
        panel.axvline(0, color=canvas.MUTED, linewidth=0.8)
        panel.set_xlabel("share of BR-0's barrier time, %")
        _finish_rows(panel)
        svg = canvas.svg_text(figure, name="costs", alt=alt + ".")
    caption = (
        "Means over the instances where each was measured. The bar is the proved least; a line "
        "beyond it reaches to the most it can be."
    )
    return Drawing("costs", "What each kind of decision costs", caption, alt + ".", svg)


def hold_lines(document: GapDocument) -> Drawing | None:
    """Barrier time of the best schedule against the allowed hold; None without small instances."""
    curves = [(case.name, relative_curve(case)) for case in document.cases if case.hold_curve]
    drawn = [(name, points) for name, points in curves if points]
    if not drawn:
        return None
    alt = "Line chart, best barrier time above the best known with unlimited hold: " + "; ".join(
        f"{name}: " + ", ".join(f"{label} {_between(low, high)}" for label, low, high in points)
        for name, points in drawn
    )
    with canvas.sheet(height=3.2) as (figure, (panel,)):
        for position, (name, points) in enumerate(drawn):
            _draw_curve(panel, name, points, mark=MARKS[position % len(MARKS)])
        panel.set_xticks(range(len(RULES)), RULES)
        panel.set_xlim(-0.4, len(RULES) - 0.6)
        panel.set_xlabel("most steps a request may wait")
        panel.set_ylabel("above unlimited hold, %")
        if len(drawn) <= MOST_NAMES:
            panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0)
        svg = canvas.svg_text(figure, name="hold", alt=alt + ".")
    caption = (
        "The fastest schedule of each small instance under a limit on waiting, everything known; "
        "busy: no request waits while a replica has room. Filled marks are proved; a hollow mark "
        "is the best known, the line below it reaches to the bound. Rules that no schedule obeys, "
        "or for which none was found in time, have no mark."
    )
    return Drawing("hold", "What being allowed to wait buys", caption, alt + ".", svg)


def policy_colour(name: str) -> str:
    """Colour by kind: JSQ, told true lengths, without a score, with one."""
    policy = find_policy(name)
    if policy.spec.name == "jsq":
        return canvas.BASELINE
    if policy.spec.needs_predictor and policy.predictor == ORACLE:
        return canvas.ORACLE
    plain = policy.spec.family == "immediate" or policy.spec.name == "pool-fifo"
    return canvas.PLAIN if plain else canvas.SCORE


def _gaps(document: GapDocument, name: str, yardstick: Yardstick) -> list[GapFacts]:
    read = (
        yardstick.read(facts)
        for case in document.cases
        for facts in case.routers
        if facts.router == name
    )
    return [gap for gap in read if gap is not None]


def _described(gaps: Sequence[GapFacts]) -> str:
    least = [gap.relative[0] for gap in gaps if gap.relative[0] is not None]
    if not least:
        return "without a ratio"
    proved = sum(gap.proved for gap in gaps)
    return f"median {percent(median(least))}, {proved} of {len(gaps)} proved"


def _between(low: float, high: float) -> str:
    return percent(low) if low == high else f"{percent(low)} to {percent(high)}"


def _draw_row(panel: Axes, gaps: Sequence[GapFacts], *, place: int, colour: str) -> None:
    least = []
    for position, gap in enumerate(gaps):
        low, high = gap.relative
        if low is None:
            continue
        least.append(100 * low)
        height = place + SPREAD * ((position + 0.5) / len(gaps) - 0.5)
        if not gap.proved:
            end = low if high is None else high
            panel.plot([100 * low, 100 * end], [height, height], color=colour, linewidth=1.2)
        mark = "o" if gap.proved else ">" if high is None else "|"
        panel.plot(100 * low, height, mark, color=colour, markersize=4)
    if least:
        middle = median(least)
        ends = [place - 0.6 * SPREAD, place + 0.6 * SPREAD]
        panel.plot([middle, middle], ends, color=canvas.INK, linewidth=1.4)


def _finish_rows(panel: Axes) -> None:
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)
    panel.margins(x=0.06, y=0.04)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _place: f"{x:g}".replace("-", "−")))
    panel.invert_yaxis()


Point = tuple[str, float, float]


def relative_curve(case: CaseFacts) -> list[Point]:
    """Label of a rule and [bound, incumbent] over the best known with unlimited hold, minus 1."""
    curve = case.hold_curve or []
    free = next((p for p in curve if _label(p) == UNLIMITED), None)
    if free is None or not free.incumbent:
        return []
    return [
        (_label(p), p.bound / free.incumbent - 1, p.incumbent / free.incumbent - 1)
        for p in curve
        if p.incumbent is not None and p.bound is not None
    ]


def _label(point: HoldFacts) -> str:
    if point.work_conserving:
        return BUSY
    return UNLIMITED if point.hold is None else str(point.hold)


def _draw_curve(panel: Axes, name: str, points: Sequence[Point], *, mark: str) -> None:
    limited = [point for point in points if point[0] != BUSY]
    places = [RULES.index(label) for label, _, _ in limited]
    panel.plot(places, [100 * high for _, _, high in limited], color=canvas.SCORE, linewidth=1)
    for label, low, high in points:
        colour = canvas.PLAIN if label == BUSY else canvas.SCORE
        place, face = RULES.index(label), colour if low == high else "none"
        panel.plot([place, place], [100 * low, 100 * high], color=colour, linewidth=0.8)
        panel.plot(place, 100 * high, mark, color=colour, markerfacecolor=face, markersize=5)
    panel.plot([], [], mark, color=canvas.SCORE, label=name, markersize=5)
