"""What the paper may quote: texts by key, each from a result file, and where they come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """A result file: its path in the checkout, the command that made it, and its provenance."""

    path: str
    command: str
    revision: str
    started: str


@dataclass
class Values:
    """Texts, tables and figures under their keys.

    Parameters
    ----------
    texts
        Formatted numbers and words.
    tables
        Rows of cells; the first row is the head.
    figures
        SVG drawings.
    findings
        Sentences that studies derive from their numbers.
    statements
        Verdict and title by statement.
    sources
        The result files they come from.
    """

    texts: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    statements: dict[str, Mapping[str, str]] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)

    def kinds(self) -> dict[str, set[str]]:
        """Keys by the call that shows them."""
        return {
            "num": set(self.texts),
            "table-of": set(self.tables),
            "figure-of": set(self.figures),
            "findings-of": set(self.findings),
            "statement": set(self.statements),
        }


Collector = Callable[[Values], None]
"""Adds what one result file has to say."""
