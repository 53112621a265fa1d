"""A grid study as Markdown: its question, what the numbers say, tables, where they come from."""

import re
from collections.abc import Sequence

from brtheory.study.figures.canvas import Drawing
from brtheory.study.grid.document import Entry, GridDocument, Table


def study_markdown(document: GridDocument, drawings: Sequence[Drawing], *, images: str) -> str:
    """One section.

    Parameters
    ----------
    document
        The study.
    drawings
        Its figures; the files ``NAME.svg`` are expected under ``images``.
    images
        Folder of the figures, relative to the Markdown file.
    """
    parts = [
        f"## {document.title}",
        document.question,
        "\n".join(f"* {finding.text}" for finding in document.findings),
        *(table_markdown(table) for table in document.tables),
        *(f"![{drawing.title}]({images}/{drawing.name}.svg)" for drawing in drawings),
        "\n".join(f"* {note}" for note in document.notes),
        _origin(document),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table_markdown(table: Table) -> str:
    """One table with its title and caption; the best of a column in bold."""
    lines = [
        f"**{table.title}**",
        "",
        _row([table.corner, *table.columns]),
        "|---" * (len(table.columns) + 1) + "|",
        *(
            _row([line.title, *(_entry_text(entry) for entry in line.entries)])
            for line in table.lines
        ),
    ]
    if table.caption:
        lines += ["", table.caption]
    return "\n".join(lines)


def _row(texts: Sequence[str]) -> str:
    cells = (text.replace("|", "\\|").replace("\\ ", "/ ") for text in texts)
    return "| " + " | ".join(cells) + " |"


def _entry_text(entry: Entry) -> str:
    text = f"{entry.text} {entry.detail}".strip()
    return f"**{text}**" if entry.best else text


def _origin(document: GridDocument) -> str:
    """The command and the conditions, in one paragraph."""
    provenance = document.provenance
    command = re.sub(r" --out \S+| --jobs \S+| --scheduler \S+", "", provenance.command)
    commit = provenance.revision.commit or "outside a checkout"
    commit = commit[:10] + (" with changes" if provenance.revision.dirty else "")
    synthetic = all(source.synthetic for source in document.sources)
    requests = "generated requests" if synthetic else "requests of real traces"
    conditions = "; ".join(f"{name}: {text}" for name, text in document.conditions.items())
    seeds = len(document.seeds)
    count = "one seed" if seeds == 1 else f"mean of {seeds} seeds with 95 % intervals"
    return (
        f"`{command}` at {commit}: {count}, {requests}, modelled step time, loaded window. "
        f"{conditions}."
    )
