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
from benchmarks.window_ideas import AS_IT_IS, LIGHT, MANY
from brtheory.analysis.statistics import Measured, ratio_of_means
from brtheory.files import write_text_atomic
from brtheory.routers.params import WindowParams

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "window.md"
RESULTS = ROOT / "docs" / "results" / "window.json"
IDEAS = ROOT / "docs" / "results" / "window_ideas.json"
KV = ROOT / "docs" / "results" / "window_kv.json"
ORACLE, FIFO, LEAST = "brh:H=80", "pool-fifo", "least-tokens"
CLOSED = "closed:1.5"
SCENARIOS = ("s1", "s2", "s3", "s4")
I_MEAN, P50, P99, MOST = "imbalance_mean_tokens", "wait_p50_s", "wait_p99_s", "wait_max_s"
LOADED, WHOLE = "throughput_tokens_per_s", "throughput_of_whole_run_tokens_per_s"
Key = tuple[str, str, str]
Cell = dict[str, Any]


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


def blocks(results: Results, ideas: Results, kv: Sequence[Cell] = ()) -> dict[str, str]:
    """Each table by the name of its markers."""
    return {
        "goals": _goals(results),
        "routers": _routers(results),
        "parts": _parts(results),
        "open": _open(results),
        "workloads": _workloads(results),
        "ideas": _ideas(ideas),
        "kv": _kv(kv),
        "kv-waits": _kv_waits(kv),
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


def read_kv() -> list[Cell]:
    """Cells with limited KV capacity."""
    return json.loads(KV.read_text(encoding="utf-8"))["cells"] if KV.exists() else []


def main() -> None:
    """Fill the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    tables = blocks(read(RESULTS), read(IDEAS), read_kv())
    write_text_atomic(DOCUMENT, filled(text, tables))


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
        setting = next(s for s in (MANY, LIGHT, "") if label.endswith(s))
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


def _kv(cells: Sequence[Cell]) -> str:
    """Ratios to the router as it is, under the same capacity and arrivals."""
    found = {_conditions(cell): cell for cell in cells}
    rows = []
    for capacity, arrivals, label in dict.fromkeys(key[:3] for key in found):
        if label == "window":
            continue
        row = [f"{capacity:g}", arrivals, label]
        for g in SCENARIOS:
            own, base = (found.get((capacity, arrivals, name, g), {}) for name in (label, "window"))
            ratios = [_shown(_cell_ratio(own, base, m)) for m in (I_MEAN, WHOLE, LOADED)]
            row.append("; ".join(ratios))
        rows.append(row)
    head = ["KV", "arrivals", "router; I, throughput of the whole run, of the loaded window"]
    return table([*head, *SCENARIOS], rows)


def _kv_waits(cells: Sequence[Cell]) -> str:
    found = {_conditions(cell): cell for cell in cells}
    rows = []
    for capacity, arrivals, label in dict.fromkeys(key[:3] for key in found):
        waits = []
        for g in SCENARIOS:
            cell = found.get((capacity, arrivals, label, g), {})
            waits.append("; ".join(_seconds(cell.get(m)) for m in (P50, P99, MOST)))
        rows.append([f"{capacity:g}", arrivals, label, *waits])
    return table(["KV", "arrivals", "router; P50, P99 and longest wait, s", *SCENARIOS], rows)


def _conditions(cell: Cell) -> tuple[float, str, str, str]:
    return cell["capacity"], cell["arrivals"], cell["label"], cell["ground"]


def _cell_ratio(own: Cell, base: Cell, name: str) -> Measured | None:
    above, under = own.get(name), base.get(name)
    if not above or not under or None in above or None in under:
        return None
    return ratio_of_means(above, under)


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


def _seconds(values: Sequence[float | None] | None) -> str:
    known = [] if values is None else [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}" if known and len(known) == len(values or ()) else "–"


if __name__ == "__main__":
    main()
