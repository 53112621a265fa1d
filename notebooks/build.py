"""Execute the notebooks and keep each .ipynb equal to its source.

    python -m notebooks.build            execute all, write the .ipynb files
    python -m notebooks.build start_here

The environment variable BRTHEORY_NOTEBOOK_SIZE=smoke makes the runs inside them small.
"""

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

from brtheory.errors import InputError
from brtheory.files import write_text_atomic

FOLDER = Path(__file__).resolve().parent
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
CELL_TIMEOUT_S = 600


def sources() -> list[Path]:
    """The notebooks' sources, by name."""
    return sorted(path for path in FOLDER.glob("*.py") if path.name not in SCRIPTS)


SCRIPTS = {"__init__.py", "build.py"}


def read_source(source: Path) -> nbformat.NotebookNode:
    """A notebook without outputs, from its percent-format source."""
    notebook: nbformat.NotebookNode = jupytext.read(source, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(KERNEL)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{source.stem.replace('_', '-')}-{number}"
        cell.metadata = nbformat.from_dict({})
    return notebook


def execute(source: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails; the message shows the cell.
    """
    notebook = read_source(source)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    return notebook


def cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """What a source and its notebook must share: kinds and texts of the cells."""
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def build(names: list[str]) -> None:
    """Execute the named notebooks, all if none is named, and write them.

    Raises
    ------
    InputError
        If there is no notebook of a name.
    """
    known = {source.stem: source for source in sources()}
    for name in names or known:
        if name not in known:
            raise InputError("notebook", f"one of {', '.join(known)}", repr(name))
        notebook = execute(known[name])
        text = nbformat.writes(notebook, version=4) + "\n"
        write_text_atomic(known[name].with_suffix(".ipynb"), text)


if __name__ == "__main__":
    build(sys.argv[1:])
