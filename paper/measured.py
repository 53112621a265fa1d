"""Measurements in the paper: predictors, the window router's parts, ticks, the proxy, brackets."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bracket import table as bracket_table
from benchmarks.window_report import blocks
from benchmarks.window_report import read as read_cells
from brtheory.analysis.extremes import log_bound_overstatement
from brtheory.prediction.contribution import GATE
from brtheory.prediction.evaluation_document import PredictEvaluateDocument
from brtheory.simulation.benchmark.document import BenchDocument
from brtheory.study import wording
from brtheory.study.grids.settings import EMBEDDED
from paper.calibration import calibration_lines
from paper.sources import FONT, RESULTS, read
from paper.values import Values

TICKS = (
    ("br0", 16, "steady"),
    ("brh", 16, "steady"),
    ("brh", 1024, "steady"),
    ("brh", 1024, "burst"),
    ("window", 16, "steady"),
)
"""Ticks the paper shows."""
STREAMS = (64, 512, 2000)
"""Streams at once of the proxy's table."""
PREDICTED = ("azure-2023-conv", "azure-2024-long-output", "proprietary-surrogate")
PREDICTORS = ("survival", "learned")
"""Of the predictions measured, those the paper shows."""
BRACKET = (
    "requests", "preset", "like equal ones", "prompts' share", "BR-0's gap", "optimum known within",
)  # fmt: skip
"""Columns of the brackets the paper shows."""
DIRECT, OURS = "direct", "brtheory"
Row = Mapping[str, Any]


def window(values: Values) -> None:
    """The window router's goals, and what each of its parts is worth."""
    read(values, "window.json")
    tables = blocks(read_cells(RESULTS / "window.json"), read_cells(RESULTS / "window_ideas.json"))
    values.tables["window-goals"] = _markdown_rows(tables["goals"])
    values.tables["window-parts"] = _markdown_rows(tables["parts"])


def prediction(values: Values) -> None:
    """What predictors say against what happens, and how often the gate lets them speak."""
    documents = [
        PredictEvaluateDocument.model_validate_json(json.dumps(evaluation))
        for evaluation in read(values, "prediction.json")["evaluations"]
        if evaluation["predictor"] in PREDICTORS and evaluation["run"]["trace"] in PREDICTED
    ]
    values.texts["prediction.horizon"] = str(documents[0].horizon)
    values.texts["prediction.requests"] = f"{documents[0].run.requests:,}"
    head = [
        "workload, predictor",
        "AUC",
        "reported",
        "Brier",
        "constant",
        "off by",
        "past gate",
    ]
    values.tables["prediction"] = [head, *(_scores(document) for document in documents)]
    survival = [document for document in documents if document.predictor == "survival"]
    values.figures["calibration"] = calibration_lines(survival).standalone(font=FONT)


def exact_score(values: Values) -> None:
    """The exact horizon score against the usual one: ratios of imbalance."""
    cells = read(values, "exact_score.json")["cells"]
    ratios = [cell["ratio"] for cell in cells]
    sure = [cell for cell in cells if not cell["low"] <= 1 <= cell["high"]]
    values.texts["exact.sure"], values.texts["exact.cells"] = str(len(sure)), str(len(cells))
    values.texts["exact.least"] = wording.ratio(min(ratios))
    values.texts["exact.most"] = wording.ratio(max(ratios))


def ticks(values: Values) -> None:
    """A tick's time, on the machine that the result file names."""
    bench = BenchDocument.model_validate(read(values, "bench.json"))
    values.texts["bench.machine"] = f"{bench.machine['cpu']}, {bench.machine['cores']} cores"
    values.tables["ticks"] = [["router, G, moment", "reference", "numpy", "compiled"]]
    for router, replicas, severity in TICKS:
        found = {
            tick.backend: tick
            for tick in bench.tick
            if (tick.router, tick.replicas, tick.severity) == (router, replicas, severity)
        }
        times = [found["compiled"].reference_p50_us] if "compiled" in found else [None]
        times += [found[e].p50_us if e in found else None for e in ("numpy", "compiled")]
        cells = [wording.NONE if time is None else f"{time:,.0f} µs" for time in times]
        values.tables["ticks"].append([f"{router}, {replicas}, {severity}", *cells])


def proxy(values: Values) -> None:
    """What a router costs a token and a request, beside other routers on the same machine."""
    document = read(values, "proxy.json")
    values.texts["proxy.load-before"], values.texts["proxy.load-after"] = (
        f"{load:.1f}" for load in document["load_average"]
    )
    found = {(row["router"], row["kind"], row.get("streams")): row for row in document["rows"]}
    routers = dict.fromkeys(router for router, _, _ in found if router != DIRECT)
    head = ["router", *(f"CPU a token, {streams:,} streams" for streams in STREAMS)]
    head += [f"first token later, {STREAMS[1]:,}", "KiB a stream", "small request later"]
    middle = {router: found[router, "streams", STREAMS[1]]["cpu_s_per_token"] for router in routers}
    for peer in routers:
        if peer != OURS:
            values.texts[f"proxy.to-{peer}"] = wording.ratio(middle[OURS] / middle[peer])
    versions = document["machine"]
    values.tables["proxy"] = [head] + [
        [
            "this proxy" if router == OURS else f"{router} {versions[router]}",
            *(_micro(found[router, "streams", s]["cpu_s_per_token"]) for s in STREAMS),
            _later(found, router, "streams", STREAMS[1], "ttft_p5_s"),
            f"{found[router, 'streams', STREAMS[-1]]['bytes_per_stream'] / 1024:.0f}",
            _later(found, router, "small", None, "took_p50_s"),
        ]
        for router in routers
    ]


def brackets(values: Values) -> None:
    """What is certified on instances of production size."""
    cells = read(values, "bracket.json")["cells"]
    head, *rows = _markdown_rows(bracket_table(cells))
    values.tables["bracket"] = [
        [row[head.index(column)].strip("`") for column in BRACKET] for row in (head, *rows)
    ]
    (values.texts["bracket.requests"],) = {f"{cell['requests']:,}" for cell in cells.values()}


def extremes(values: Values) -> None:
    """How far the usual approximation of an expected maximum is off."""
    for replicas in (2, 8):
        over = log_bound_overstatement(replicas)
        assert over is not None  # noqa: S101  # two replicas or more have one
        values.texts[f"extremes.over{replicas}"] = f"{100 * over:.0f} %"


def _scores(document: PredictEvaluateDocument) -> Sequence[str]:
    opened = sum(b.count for b in document.calibration_curve if b.low >= GATE)
    reported = [r.auc for r in document.reported if r.workload == document.run.trace]
    return [
        f"{EMBEDDED[document.run.trace]}, {document.predictor}",
        _digits(document.auc, 3),
        _digits(reported[0] if reported else None, 3),
        _digits(document.brier, 4),
        _digits(document.brier_of_base_rate, 4),
        _digits(document.calibration_error, 4),
        f"{100 * opened / document.predictions:.2f} %",
    ]


def _digits(value: float | None, digits: int) -> str:
    return wording.NONE if value is None else f"{value:.{digits}f}"


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} µs"


def _later(
    found: Mapping[tuple[str, str, int | None], Row],
    router: str,
    kind: str,
    streams: int | None,
    field: str,
) -> str:
    """Milliseconds more than on the direct way."""
    there, direct = found[router, kind, streams], found[DIRECT, kind, streams]
    return f"{1000 * (there[field] - direct[field]):.1f} ms"


def _markdown_rows(text: str) -> list[list[str]]:
    """Rows of a Markdown table, its rule left out; intervals, in brackets, left out too."""
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines()]
    return [
        [re.sub(r" \(\d[^)]*\)", "", cell) for cell in row]
        for row in cells
        if not set("".join(row)) <= set(":- ")
    ]
