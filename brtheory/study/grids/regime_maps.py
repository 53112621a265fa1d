"""Heat maps of `study regimes`, and the same as tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from brtheory.study import wording
from brtheory.study.figures import canvas
from brtheory.study.figures.canvas import Drawing
from brtheory.study.figures.heat import HeatMap, heat_drawing
from brtheory.study.grid.document import Entry, GridDocument, Line, Table, Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grids.regime_names import ARRIVALS, MEMORY, SHARE, SPREAD, Gain, gain_at


@dataclass(frozen=True)
class Plane:
    """Two axes of the study and what the plane is called."""

    name: str
    title: str
    down: str
    across: str


PLANES = (
    Plane("backlog", "backlog and step time", ARRIVALS, SHARE),
    Plane("memory", "memory and prompts", MEMORY, SPREAD),
)


def plane_gains(document: GridDocument, plane: Plane) -> list[list[Gain | None]]:
    """Gains by value down and across."""
    return [
        [
            gain_at(document, {plane.down: down, plane.across: across})
            for across in document.values(plane.across)
        ]
        for down in document.values(plane.down)
    ]


def draw_maps(document: GridDocument) -> list[Drawing]:
    """What JSQ loses and what the best router wins back, over both planes."""
    return [
        drawing
        for plane in PLANES
        for drawing in (_lost_map(document, plane), _won_map(document, plane))
    ]


def map_tables(document: GridDocument) -> list[Table]:
    """What the best router wins back and which it is, over both planes."""
    return [
        Table(
            title=f"Decode time won back against JSQ, and by whom: {plane.title}",
            corner=f"{document.axis(plane.down).title} \\ {document.axis(plane.across).title}",
            columns=_titles(document, plane.across),
            lines=[
                Line(title=title, entries=[_entry(document, gain) for gain in line])
                for title, line in zip(
                    _titles(document, plane.down), plane_gains(document, plane), strict=True
                )
            ],
            caption="Points of decode time; below them what JSQ loses.",
        )
        for plane in PLANES
    ]


def _entry(document: GridDocument, gain: Gain | None) -> Entry:
    if gain is None:
        return Entry(text=wording.NONE)
    who = document.title_of(ROUTER, gain.best)
    return Entry(text=f"{100 * gain.won:.1f} {who}", detail=f"of {wording.percent(gain.lost)} lost")


def _lost_map(document: GridDocument, plane: Plane) -> Drawing:
    gains = plane_gains(document, plane)
    lost = [[None if gain is None else gain.lost for gain in line] for line in gains]
    return _map(
        document,
        plane,
        name="lost",
        title=f"What JSQ loses: {plane.title}",
        caption="Share of decode time, in %, that the average replica waits under JSQ.",
        values=lost,
        texts=[["–" if share is None else f"{100 * share:.1f}" for share in line] for line in lost],
        colour=canvas.BASELINE,
    )


def _won_map(document: GridDocument, plane: Plane) -> Drawing:
    gains = plane_gains(document, plane)
    return _map(
        document,
        plane,
        name="won",
        title=f"What the best router wins back: {plane.title}",
        caption=f"Points of decode time against JSQ, and the initials of the router that wins "
        f"most: {_legend(document)}.",
        values=[[None if gain is None else gain.won for gain in line] for line in gains],
        texts=[
            [
                "–" if gain is None else f"{100 * gain.won:.1f}\n{_short(document, gain.best)}"
                for gain in line
            ]
            for line in gains
        ],
        colour=canvas.SCORE,
    )


def _map(
    document: GridDocument,
    plane: Plane,
    *,
    name: str,
    title: str,
    caption: str,
    values: Sequence[Sequence[float | None]],
    texts: Sequence[Sequence[str]],
    colour: str,
) -> Drawing:
    return heat_drawing(
        HeatMap(
            name=f"{name}-{plane.name}",
            title=title,
            caption=caption,
            down=document.axis(plane.down).title,
            across=document.axis(plane.across).title,
            lines=_titles(document, plane.down),
            columns=_titles(document, plane.across),
            values=values,
            texts=texts,
            colour=colour,
        )
    )


def _titles(document: GridDocument, name: str) -> list[str]:
    return [entry.title for entry in document.axis(name).values]


def _short(document: GridDocument, label: Value) -> str:
    """``W``, ``LT``, ``BR-0``: what fits into a cell."""
    title = document.title_of(ROUTER, label)
    return title if len(title) <= 4 else "".join(word[0] for word in title.split()).upper()


def _legend(document: GridDocument) -> str:
    return ", ".join(
        f"{_short(document, label)} {document.title_of(ROUTER, label)}"
        if _short(document, label) != document.title_of(ROUTER, label)
        else str(document.title_of(ROUTER, label))
        for label in document.values(ROUTER)
    )
