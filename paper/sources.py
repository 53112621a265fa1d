"""Result files, and what each says about where it comes from."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brtheory.study.wording import NONE
from paper.values import Source, Values

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
FONT = "Libertinus Serif"
"""Of the paper, and so of its figures."""
COMMANDS = {
    "bench.json": "brtheory bench",
    "bracket.json": "python -m benchmarks.bracket",
    "proxy.json": "python -m benchmarks.proxy",
}
"""Commands of result files that do not name theirs."""


def read(values: Values, name: str) -> Mapping[str, Any]:
    """A result file; where it comes from is added to the values' sources."""
    document: Mapping[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    made = document.get("provenance", {"command": COMMANDS.get(name, NONE)})
    revision = made.get("revision", {})
    mark = " (uncommitted changes)" if revision.get("dirty") else ""
    source = Source(
        f"docs/results/{name}",
        re.sub(r" --out \S+", "", made["command"]),
        f"{revision['commit'][:10]}{mark}" if revision else NONE,
        made.get("started", NONE)[:16],
    )
    values.sources.append(source)
    return document
