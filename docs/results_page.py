"""RESULTS.md from result files: every grid study in docs/results, nothing typed.

    python docs/results_page.py results/scenarios results/tables    # take these studies in
    python docs/results_page.py                                     # write the page again

A study taken in is kept as docs/results/NAME.json, with the metrics its tables and sentences are
read from; these are read again from the numbers each time, and a test compares.
"""

import re
import sys
from pathlib import Path

from brtheory.contracts import read_contract
from brtheory.files import write_text_atomic
from brtheory.study.grid.document import GridDocument
from brtheory.study.grid.markdown import study_markdown
from brtheory.study.grid.study import read_grid, trimmed
from brtheory.study.grids.catalogue import VIEWS

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "results"
IMAGES = Path("docs") / "images" / "results"
HEAD = """# Results

Made by `python docs/results_page.py` from the result files in docs/results: no number and no
recommendation on this page is typed. Requests are generated and step times modelled; study your own
trace with `brtheory study` ([docs/study.md](docs/study.md)).
"""


def take_in(folder: Path) -> None:
    """Keep a finished study under docs/results."""
    document = read_contract(folder / "results.json", GridDocument)
    keep(trimmed(document, VIEWS[document.study]))


def keep(document: GridDocument) -> None:
    """Write a trimmed study to docs/results."""
    text = document.model_dump_json(by_alias=True)
    write_text_atomic(KEPT / f"{document.study}.json", text + "\n")


def published() -> list[GridDocument]:
    """The studies kept, read again from their numbers, in the order of the page."""
    documents = []
    for name, view in VIEWS.items():
        path = KEPT / f"{name}.json"
        if path.exists():
            documents.append(read_grid(read_contract(path, GridDocument), view))
    return documents


def page() -> str:
    """RESULTS.md as text: what is on the page, then one section a study."""
    documents = published()
    contents = [f"* [{document.title}](#{anchor(document.title)})" for document in documents]
    sections = [
        study_markdown(document, VIEWS[document.study].draw(document), images=IMAGES.as_posix())
        for document in documents
    ]
    return "\n".join([HEAD, *contents, "", *sections])


def anchor(title: str) -> str:
    """The address of a heading: what GitHub and MkDocs make of its words."""
    return re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-")


def write_page() -> None:
    """Write RESULTS.md, its figures, and what was read from the numbers back to docs/results."""
    for document in published():
        keep(document)
        for drawing in VIEWS[document.study].draw(document):
            write_text_atomic(ROOT / IMAGES / f"{drawing.name}.svg", drawing.standalone())
    write_text_atomic(ROOT / "RESULTS.md", page())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take_in(Path(argument))
    write_page()
