"""Fill docs/window.md from the result files: ``python -m benchmarks.window_report``.

Nothing in the document's tables is typed: each is rendered between its pair of markers, and a test
renders them again. A cell that was not measured shows a dash.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.window import OPEN_PARTS
from benchmarks.window_ideas import AS_IT_IS, LIGHT, MANY, TIGHT
from brtheory.analysis.statistics import Measured, ratio_of_means
from brtheory.files import write_text_atomic
from brtheory.routers.params import WindowParams

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "window.md"
RESULTS = ROOT / "docs" / "results" / "window.json"
IDEAS = ROOT / "docs" / "results" / "window_ideas.json"
ORACLE, FIFO, LEAST = "brh:H=80", "pool-fifo", "least-tokens"
CLOSED = "closed:1.5"
SCENARIOS = ("s1", "s2", "s3", "s4")
I_MEAN, P50, P99, MOST = "imbalance_mean_tokens", "wait_p50_s", "wait_p99_s", "wait_max_s"
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Results:
    """Cells by ground, arrivals and label."""

    cells: dict[Key, dict[str, Any]]

    def values(self, ground: str, arrivals: str, label: str, metric: str) -> list[float] | None:
        """One number a seed, None where a run is missing or its loaded window empty."""
        found = self.cells.get((ground, arrivals, label), {}).get(metric)
        return None if found is None or None in found else list(found)

    def ratio(self, one: Key, metric: str, other: Key, below: str) -> Measured | None:
        """Ratio of the means over the seeds."""
        above, under = self.values(*one, metric), self.values(*other, below)
        if above is None or under is None:
            return None
        return ratio_of_means(above, under)

    def labels(self, *, prefix: str = "") -> list[str]:
        """Labels of the closed runs in the order of the file."""
        seen = dict.fromkeys(label for ground, at, label in self.cells if at == CLOSED)
        return [label for label in seen if label.startswith(prefix)]


def blocks(results: Results, ideas: Results) -> dict[str, str]:
    """Each table by the name of its markers."""
    return {
        "goals": _goals(results),
        "routers": _routers(results),
        "parts": _parts(results),
        "open": _open(results),
        "workloads": _workloads(results),
        "ideas": _ideas(ideas),
    }


def filled(text: str, tables: dict[str, str]) -> str:
    """The document with the tables between their markers."""
    for name, table in tables.items():
        marked = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        text = marked.sub(lambda found, table=table: found[1] + table + found[2], text)
    return text


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def read(path: Path) -> Results:
    """A result file; an absent one has no cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    return Results({(c["ground"], c.get("arrivals", CLOSED), c["label"]): c for c in cells})


def main() -> None:
    """Fill the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    write_text_atomic(DOCUMENT, filled(text, blocks(read(RESULTS), read(IDEAS))))


def _goals(results: Results) -> str:
    rows = []
    for ground in SCENARIOS:
        own, fifo = (ground, CLOSED, "window"), (ground, CLOSED, FIFO)
        rows.append(
            [
                ground,
                _shown(results.ratio(own, I_MEAN, (ground, CLOSED, ORACLE), I_MEAN)),
                _shown(results.ratio(own, P50, fifo, P50)),
                _shown(results.ratio(own, P99, fifo, P50)),
                _shown(results.ratio(own, MOST, fifo, P50)),
                _plain(_share_of_limit(results, own)),
            ]
        )
    values = [
        results.ratio((g, CLOSED, "window"), I_MEAN, (g, CLOSED, ORACLE), I_MEAN) for g in SCENARIOS
    ]
    known = [m.value for m in values if m is not None]
    mean = sum(known) / len(known) if len(known) == len(SCENARIOS) else None
    rows.append(["mean", _plain(mean), "", "", "", ""])
    titles = [
        "scenario",
        "I / BR-H oracle (H = 80)",
        "P50 wait / FIFO's",
        "P99 wait / FIFO's P50",
        "longest wait / FIFO's P50",
        "longest wait / own age limit",
    ]
    return table(titles, rows)


def _share_of_limit(results: Results, own: Key) -> float | None:
    longest, median = results.values(*own, MOST), results.values(*own, P50)
    limit, floor = WindowParams().age_limit, WindowParams().age_floor_s
    if longest is None or median is None or limit is None:
        return None
    return max(a / max(limit * b, floor) for a, b in zip(longest, median, strict=True))


def _routers(results: Results) -> str:
    labels = [label for label in results.labels() if label not in _part_labels(results)]
    rows = [
        [
            label,
            *(
                _shown(results.ratio((g, CLOSED, label), I_MEAN, (g, CLOSED, ORACLE), I_MEAN))
                for g in SCENARIOS
            ),
        ]
        for label in labels
    ]
    return table(["I / BR-H oracle (H = 80)", *SCENARIOS], rows)


def _parts(results: Results) -> str:
    rows = []
    for label in _part_labels(results):
        row = [label.removeprefix("window:")]
        for g in SCENARIOS:
            changed, own = (g, CLOSED, label), (g, CLOSED, "window")
            imbalance = _shown(results.ratio(changed, I_MEAN, own, I_MEAN))
            wait = _plain(_value(results.ratio(changed, P99, (g, CLOSED, FIFO), P50)))
            row.append(f"{imbalance}; {wait}")
        rows.append(row)
    return table(["change; I / as it is; P99 wait / FIFO's P50", *SCENARIOS], rows)


def _part_labels(results: Results) -> list[str]:
    return [label for label in results.labels(prefix="window:") if label != "window:plain"]


def _open(results: Results) -> str:
    arrivals = dict.fromkeys(at for _, at, _ in results.cells if at != CLOSED)
    labels = ("window", *(f"window:{label}" for label in OPEN_PARTS), "window:plain", "br0")
    waiting = ("window", "window:hold_s=0", LEAST)
    rows = []
    for ground in SCENARIOS:
        for at in arrivals:
            least = (ground, at, LEAST)
            ratios = [
                _shown(results.ratio((ground, at, label), I_MEAN, least, I_MEAN))
                for label in labels
            ]
            waits = [_seconds(results.values(ground, at, label, P99)) for label in waiting]
            rows.append([ground, at.removeprefix("open:rho="), *ratios, *waits])
    titles = [
        "scenario",
        "rho",
        *(f"{label}: I / least tokens" for label in labels),
        *(f"{label}: P99 wait, s" for label in waiting),
    ]
    return table(titles, rows)


def _workloads(results: Results) -> str:
    grounds = dict.fromkeys(g for g, _, _ in results.cells if g not in SCENARIOS)
    labels = ("window", "window:hold_s=4", "window:plain", "br0", "brh:H=near", "jsq", LEAST)
    rows = []
    for g in grounds:
        ratios = [
            _shown(results.ratio((g, CLOSED, label), I_MEAN, (g, CLOSED, ORACLE), I_MEAN))
            for label in labels
        ]
        wait = results.ratio((g, CLOSED, "window"), P99, (g, CLOSED, FIFO), P50)
        rows.append([g, *ratios, _plain(_value(wait))])
    titles = ["I / BR-H oracle (H = 80)", *labels, "window: P99 wait / FIFO's P50"]
    return table(titles, rows)


def _ideas(results: Results) -> str:
    rows = []
    for label in results.labels():
        setting = next(s for s in (MANY, LIGHT, TIGHT, "") if label.endswith(s))
        base = AS_IT_IS + setting
        if label == base:
            continue
        row = [label]
        for g in SCENARIOS:
            changed, own = (g, CLOSED, label), (g, CLOSED, base)
            imbalance = _shown(results.ratio(changed, I_MEAN, own, I_MEAN))
            wait = _plain(_value(results.ratio(changed, P99, own, P99)))
            row.append(f"{imbalance}; {wait}")
        rows.append(row)
    return table(["idea; I / as it is; P99 wait / as it is", *SCENARIOS], rows)


def _value(measured: Measured | None) -> float | None:
    return None if measured is None else measured.value


def _shown(measured: Measured | None) -> str:
    if measured is None:
        return "–"
    if measured.interval is None:
        return f"{measured.value:.2f}"
    return f"{measured.value:.2f} ({measured.interval.low:.2f}..{measured.interval.high:.2f})"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _seconds(values: Sequence[float] | None) -> str:
    return "–" if values is None else f"{sum(values) / len(values):.2f}"


if __name__ == "__main__":
    main()
