"""What was measured, as a table and a figure: every figure is the rows', none is typed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

DIRECT = "direct"
TARGET_US = 40.0
LOOKS = {
    "brtheory": ("#00688b", "o-"),
    "vllm-router": ("#c05a00", "s--"),
    "xpyd-proxy": ("#777777", "^-."),
}
"""Colour, mark and line, so that a router is known without its colour."""

STREAMED = (
    (
        "| router | streams | CPU us a token | chunks/s a core | first token later, ms (P5) "
        "| added a token, ms (P50) | KiB a stream | its core | clients' core |"
    ),
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
)
OTHERS = (
    (
        "| router | CPU us a small request | small request later, ms: P50 | P5 "
        "| chunks/s when asked for more than it can | clients' core meanwhile |"
    ),
    "|---|--:|--:|--:|--:|--:|",
)

EARLIER = (
    "| run | load average | router | CPU us a token, by streams | CPU us a small request |",
    "|---|--:|---|---|--:|",
)

Rows = Sequence[Mapping[str, Any]]


def as_table(document: Mapping[str, Any]) -> str:
    """Markdown of a result document."""
    on = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    rows: Rows = document["rows"]
    before, after = document["load_average"]
    lines = [
        f"Measured on: {on}; load average {before:.1f} before and {after:.1f} after.",
        "",
        *STREAMED,
        *(_streamed(row, rows) for row in rows if row["kind"] == "streams"),
        "",
        *OTHERS,
        *(_others(name, rows) for name in _names(rows) if name != DIRECT),
        *(f"| {name} | not run here: {why} | | | | |" for name, why in document["not_run"].items()),
        *_earlier(document),
    ]
    return "\n".join(lines) + "\n"


def with_earlier(document: dict[str, Any], former: Mapping[str, Any]) -> dict[str, Any]:
    """The document with CPU times of those published before it: machines differ from day to day."""
    cpu = ("router", "kind", "streams", "cpu_s_per_token", "cpu_s_per_request")
    short = {
        "revision": former.get("provenance", {}).get("revision", {}).get("commit"),
        "load_average": former["load_average"],
        "rows": [
            {name: row[name] for name in cpu if name in row}
            for row in former["rows"]
            if row["router"] != DIRECT
        ],
    }
    return {**document, "earlier": [*former.get("earlier", []), short]}


def draw(document: Mapping[str, Any]) -> Figure:
    """CPU of a token, and what a router adds to it, by streams."""
    rows: Rows = document["rows"]
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    cpu, added = figure.subplots(1, 2)
    for name in _names(rows):
        mine = [row for row in rows if (row["router"], row["kind"]) == (name, "streams")]
        if name == DIRECT:
            continue
        streams = [row["streams"] for row in mine]
        colour, look = LOOKS.get(name, (None, "D:"))
        cpu.plot(streams, [row["cpu_s_per_token"] * 1e6 for row in mine], look, c=colour)
        delays = [_added(row, rows, "delay_p50_s") * 1e3 for row in mine]
        added.plot(streams, delays, look, c=colour, label=name)
    cpu.axhline(TARGET_US, color="black", linewidth=0.8, linestyle=":")
    cpu.annotate("target", (0.02, TARGET_US), xycoords=("axes fraction", "data"), va="bottom")
    cpu.set(xlabel="streams at once", ylabel="CPU of a token, us", xscale="log")
    added.set(xlabel="streams at once", ylabel="later than direct, ms (P50)", xscale="log")
    added.set_yscale("symlog", linthresh=1)
    added.set_ylim(bottom=0)
    if added.lines:
        added.legend(frameon=False)
    return figure


def _streamed(row: Mapping[str, Any], rows: Rows) -> str:
    start = f"| {row['router']} | {row['streams']:,} "
    load = f"{row['load_core_share']:.0%}"
    if row["router"] == DIRECT:
        return f"{start}| - | - | - | - | - | - | {load} |"
    us = row["cpu_s_per_token"] * 1e6
    return (
        f"{start}| {us:.1f} | {1e6 / us:,.0f} | {_added(row, rows, 'ttft_p5_s') * 1e3:.2f} "
        f"| {_added(row, rows, 'tpot_p50_s') * 1e3:.3f} | {row['bytes_per_stream'] / 1024:.1f} "
        f"| {row['core_share']:.0%} | {load} |"
    )


def _earlier(document: Mapping[str, Any]) -> list[str]:
    runs = document.get("earlier", [])
    if not runs:
        return []
    lines = ["", "Runs published before this one, the newest last:", "", *EARLIER]
    for run in runs:
        rows: Rows = run["rows"]
        before, after = run["load_average"]
        named = "revision not kept" if run["revision"] is None else run["revision"][:9]
        for name in _names(rows):
            mine = [row for row in rows if (row["router"], row["kind"]) == (name, "streams")]
            tokens = ", ".join(
                f"{row['streams']:,}: {row['cpu_s_per_token'] * 1e6:.1f}" for row in mine
            )
            small = _find(rows, name, "small")
            request = "-" if small is None else f"{small['cpu_s_per_request'] * 1e6:,.0f}"
            lines.append(
                f"| {named} | {before:.1f} to {after:.1f} | {name} | {tokens} | {request} |"
            )
    return lines


def _others(name: str, rows: Rows) -> str:
    small = _find(rows, name, "small")
    full = _find(rows, name, "saturated")
    direct = _find(rows, DIRECT, "small")
    cells = ["-"] * 5
    if small is not None and direct is not None:
        added_ms = [(small[field] - direct[field]) * 1e3 for field in ("took_p50_s", "took_p5_s")]
        cells[:3] = [f"{small['cpu_s_per_request'] * 1e6:,.0f}", *(f"{ms:.2f}" for ms in added_ms)]
    if full is not None:
        cells[3:] = [f"{full['tokens_per_s']:,.0f}", f"{full['load_core_share']:.0%}"]
    return f"| {name} | {' | '.join(cells)} |"


def _added(row: Mapping[str, Any], rows: Rows, field: str) -> float:
    """The field, less what it is without a router; not a number where that was not measured."""
    direct = _find(rows, DIRECT, row["kind"], streams=row["streams"])
    return math.nan if direct is None else float(row[field] - direct[field])


def _find(
    rows: Rows, router: str, kind: str, *, streams: int | None = None
) -> Mapping[str, Any] | None:
    for row in rows:
        if (row["router"], row["kind"]) == (router, kind) and streams in (None, row.get("streams")):
            return row
    return None


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["router"] for row in rows))
