"""Build the paper: collect values from result files, check the sources, typeset.

    python -m paper.build [OUTPUT.pdf]

Fails, with file and line, on a key that no result file gives, on a value that no source uses, and
on a digit typed in prose.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import typst

from brtheory.errors import BrtheoryError
from brtheory.files import write_text_atomic
from paper.collect import collect
from paper.prose import typed_digits, used_keys
from paper.sources import ROOT
from paper.values import Values

PAPER = ROOT / "paper"
GENERATED = PAPER / "generated"
OUTPUT = ROOT / "results" / "paper" / "paper.pdf"


def problems(sources: Mapping[str, str], values: Values) -> list[str]:
    """Everything that keeps the sources from being typeset, one line each.

    Parameters
    ----------
    sources
        Text by file name.
    values
        What result files give.
    """
    found = []
    known = values.kinds()
    unused = {(call, key) for call, keys in known.items() for key in keys if call != "statement"}
    for name, source in sources.items():
        for used in used_keys(source):
            unused.discard((used.call, used.key))
            if used.key not in known[used.call]:
                found.append(f'{name}:{used.line}: no result file gives {used.call}("{used.key}")')
        found += [
            f"{name}:{line}: a digit typed in prose: {word}" for line, word in typed_digits(source)
        ]
    return found + [f'unused: {call}("{key}")' for call, key in sorted(unused)]


def sources() -> dict[str, str]:
    """The prose of the paper by file name."""
    files = [PAPER / "main.typ", *sorted((PAPER / "sections").glob("*.typ"))]
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


def write_generated(values: Values, folder: Path) -> None:
    """Put everything where the Typst sources read it."""
    document = {
        "texts": values.texts,
        "tables": values.tables,
        "findings": values.findings,
        "statements": values.statements,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomic(folder / "values.json", json.dumps(document, indent=1) + "\n")
    for name, svg in values.figures.items():
        write_text_atomic(folder / f"{name}.svg", svg)


def build(output: Path = OUTPUT) -> Path:
    """Check and typeset.

    Raises
    ------
    BrtheoryError
        If the sources and the result files do not fit, or a digit is typed in prose.
    """
    values = collect()
    found = problems(sources(), values)
    if found:
        raise BrtheoryError("\n".join(found))
    write_generated(values, GENERATED)
    output.parent.mkdir(parents=True, exist_ok=True)
    typst.compile(PAPER / "main.typ", output=output, root=PAPER)
    return output


if __name__ == "__main__":
    try:
        print(build(*(Path(argument) for argument in sys.argv[1:2])))  # noqa: T201  # the answer
    except BrtheoryError as error:
        sys.exit(f"error: {error}")
