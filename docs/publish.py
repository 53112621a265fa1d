"""Put a study's numbers and figures into the documents: README table, docs/results, docs/images.

    python docs/publish.py results/study/results.json

Nothing in the documents is typed: the README's block between the ``results`` markers is rendered
from docs/results/study.json, which is the study's result file without its single runs; a test
renders it again and compares.
"""

import json
import re
import sys
from pathlib import Path

from brtheory.files import write_text_atomic
from brtheory.study.comparison_table import COLUMNS, TableCell, table_rows
from brtheory.study.figures.bars import imbalance_bars
from brtheory.study.figures.scaling import scaling_lines
from brtheory.study.results import StudyDocument

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = ROOT / "docs" / "results" / "study.json"
MARKED = re.compile(r"(<!-- results:begin -->\n).*?(<!-- results:end -->)", re.DOTALL)
KEPT_METRICS = {column.metric for column in COLUMNS} | {"imbalance_per_replica_tokens"}


def publish(results: Path) -> None:
    """Write docs/results/study.json, the figures and the README's block."""
    document = trimmed(StudyDocument.model_validate_json(results.read_text(encoding="utf-8")))
    text = json.dumps(document.model_dump(mode="json", by_alias=True), indent=1)
    write_text_atomic(SUMMARY, text + "\n")
    for drawing in (imbalance_bars(document), scaling_lines(document)):
        if drawing is not None:
            image = ROOT / "docs" / "images" / f"{drawing.name}.svg"
            write_text_atomic(image, drawing.standalone())
    readme = ROOT / "README.md"
    write_text_atomic(readme, with_block(readme.read_text(encoding="utf-8"), document))


def trimmed(document: StudyDocument) -> StudyDocument:
    """The summaries over the loaded window that documents show, without single runs."""
    summaries = [
        summary.model_copy(
            update={"metrics": {k: v for k, v in summary.metrics.items() if k in KEPT_METRICS}}
        )
        for summary in document.summaries
        if summary.scope == "loaded_window"
    ]
    return document.model_copy(update={"summaries": summaries, "rows": []})


def with_block(readme: str, document: StudyDocument) -> str:
    """The README with its results block rendered from ``document``."""
    return MARKED.sub(lambda found: found[1] + block(document) + found[2], readme)


def block(document: StudyDocument) -> str:
    """Markdown: conditions, table, findings."""
    facts, conditions = document.trace, document.conditions
    label = "synthetic requests" if facts.synthetic else "real trace"
    lines = [
        (
            f"`{command(document)}` — {facts.name} ({label}), {facts.requests:,} requests, "
            f"{conditions.replicas} replicas × {conditions.slots} slots, {conditions.arrivals}, "
            f"modelled step {conditions.b0:g} s + {conditions.a0:g} s/token × fullest load; loaded "
            f"window, mean of {len(conditions.seeds)} seeds with 95 % intervals."
        ),
        "",
        "| router | " + " | ".join(column.title for column in COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    lines += [
        f"| {row.title} | " + " | ".join(_cell(cell) for cell in row.cells) + " |"
        for row in table_rows(document)
    ]
    lines += ["", *(f"* {finding.text}" for finding in document.findings)]
    return "\n".join(lines) + "\n"


def command(document: StudyDocument) -> str:
    """The command that made the numbers, without the folder it wrote to."""
    return re.sub(r" --out \S+", "", document.provenance.command)


def _cell(cell: TableCell) -> str:
    text = f"{cell.text} {cell.detail}".strip()
    return f"**{text}**" if cell.best else text


if __name__ == "__main__":
    publish(Path(sys.argv[1]))
