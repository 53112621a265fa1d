"""Grid studies in the paper: which of their tables, drawings and sentences it shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brtheory.study.grid.document import GridDocument, Table
from brtheory.study.grid.study import read_grid
from brtheory.study.grids.catalogue import VIEWS
from paper.sources import FONT, read
from paper.values import Values


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the paper shows of a grid study; keys are the paper's.

    Parameters
    ----------
    tables
        Key, and the table's place in the study.
    figures
        Key, and the drawing's name in the study.
    findings
        Key, and the kinds of sentences of one list.
    intervals
        Keys of tables whose cells carry their intervals.
    """

    tables: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    findings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    intervals: Sequence[str] = ()


SHOWN = {
    "scenarios": Shown(
        tables={"scenarios": 0},
        figures={"scenarios-light": "imbalance-light"},
        findings={"scenarios": ("saturated", "waiting", "prediction", "light")},
    ),
    "regimes": Shown(
        figures={"regimes-won": "won-backlog"},
        findings={"regimes": ("step-time", "memory", "spread")},
    ),
    "scaling": Shown(
        tables={"fits": 3},
        figures={"growth": "growth"},
        findings={"scaling": ("independent", "normal", "fade")},
    ),
    "energy": Shown(findings={"energy": ("energy-time",)}),
    "tables": Shown(
        tables={"paper-private": 0, "paper-azure": 1},
        findings={"tables": ("barrier-model", "order", "growth")},
    ),
    "ablation": Shown(
        tables={"ablation-parts": 0, "ablation-tick": 1, "ablation-prediction": 3},
        figures={"horizon": "horizon"},
        findings={
            "ablation": ("ranking",),
            "prediction": ("horizon", "gate"),
            "prediction-errors": ("errors",),
        },
        intervals=("ablation-parts", "ablation-tick", "ablation-prediction"),
    ),
    "robustness": Shown(
        figures={"token-noise": "robustness-token-noise", "stale": "robustness-stale"},
        findings={"robustness": ("worth-token-noise", "worth-stale", "best")},
    ),
    "heterogeneous": Shown(
        tables={"speeds": 1},
        figures={"slow-replica": "slow-replica"},
        findings={"heterogeneous": ("worth", "misled", "idle")},
    ),
}


def grids(values: Values) -> None:
    """Every grid study of the paper."""
    for name, shown in SHOWN.items():
        view = VIEWS[name]
        document = read_grid(GridDocument.model_validate(read(values, f"{name}.json")), view)
        for key, at in shown.tables.items():
            values.tables[key] = rows(document.tables[at], intervals=key in shown.intervals)
        drawings = {drawing.name: drawing for drawing in view.draw(document)}
        for key, drawing in shown.figures.items():
            values.figures[key] = drawings[drawing].standalone(font=FONT)
        for key, kinds in shown.findings.items():
            values.findings[key] = [f.text for f in document.findings if f.kind in kinds]


def rows(table: Table, *, intervals: bool) -> list[list[str]]:
    """Rows of a study's table, the head first; stars mark the best."""
    shown = [[table.corner, *table.columns]]
    for line in table.lines:
        texts = [f"{e.text} {e.detail}".strip() if intervals else e.text for e in line.entries]
        cells = zip(texts, line.entries, strict=True)
        shown.append([line.title, *(f"*{text}*" if entry.best else text for text, entry in cells)])
    return shown
