"""The page of a grid study: one self-contained HTML file that opens offline."""

from collections.abc import Sequence
from pathlib import Path

from brtheory.files import write_text_atomic
from brtheory.study import wording
from brtheory.study.figures.canvas import Drawing
from brtheory.study.grid.document import GridDocument
from brtheory.study.report import PAGE, page_environment


def write_page(document: GridDocument, drawings: Sequence[Drawing], *, folder: Path) -> Path:
    """Write the page into ``folder`` and return its path."""
    path = folder / PAGE
    write_text_atomic(path, page_html(document, drawings))
    return path


def page_html(document: GridDocument, drawings: Sequence[Drawing]) -> str:
    """The page as text."""
    return (
        page_environment()
        .get_template("grid.html.j2")
        .render(document=document, drawings=drawings, wording=wording)
    )
