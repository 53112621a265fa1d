"""The executed notebooks as pages of the site: text, code and what it printed or drew.

MkDocs runs this file; what it writes exists only in the built site.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import mkdocs_gen_files
import nbformat

ROOT = Path(__file__).resolve().parent.parent
DRAWN = "image/svg+xml"
SAID = "text/markdown"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def pages() -> None:
    """One page a notebook."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        parts = [part for cell in notebook.cells for part in cell_parts(cell, path.stem)]
        with mkdocs_gen_files.open(f"notebooks/{path.stem}.md", "w") as page:
            page.write("\n\n".join(parts) + "\n")


def cell_parts(cell: nbformat.NotebookNode, name: str) -> Iterator[str]:
    """Markdown of a cell and of its outputs; drawings become files beside the page."""
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield f"```python\n{cell.source}\n```"
    for number, output in enumerate(cell.outputs):
        data = output.get("data", {})
        if DRAWN in data:
            file = f"{name}-{cell.id.rsplit('-', 1)[-1]}-{number}.svg"
            with mkdocs_gen_files.open(f"notebooks/{file}", "w") as drawing:
                drawing.write(data[DRAWN])
            yield f"![{described(data[DRAWN])}]({file})"
        elif SAID in data:
            yield data[SAID]
        else:
            text = output.get("text") or data.get("text/plain", "")
            yield f"```text\n{COLOURS.sub('', text).rstrip()}\n```"


def described(svg: str) -> str:
    """The drawing's own description, where it has one."""
    found = re.search(r'aria-label="([^"]*)"', svg)
    return found[1].replace("[", "(").replace("]", ")") if found else "Figure"


pages()
