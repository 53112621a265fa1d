"""The ledger in the paper: statements with their recorded verdicts, claims as people write them."""

import json
import re
from importlib import import_module

from paper.sources import ROOT
from paper.values import Values

WRITTEN = {
    r"<=": "≤",
    r">=": "≥",
    r"\bDelta\b": "Δ",
    r"\balpha\b": "α",
    r"\bbeta\b": "β",
    r"\bsigma\b": "σ",
    r"\bmu\b": "μ",
    r"\beps\b": "ε",
    r"\bsum_": "∑_",
    r"\bsqrt\(": "√(",
    r"\bc_hat\b": "ĉ",
    r"'(?=\W)": "′",
    r"(?<=\d) - (?=T\d)": "–",
    r"(?<=\s)-(?=[\s\w(])|(?<=\bG)-(?=1)": "−",
}
"""Plain text as patterns, and what a reader sees; the style lowers ``_g`` and raises ``^2``."""


def ledger(values: Values) -> None:
    """Statements with their recorded verdicts; claims come from the register itself."""
    record = json.loads((ROOT / "proofs" / "record.json").read_text(encoding="utf-8"))["statements"]
    statements = import_module("proofs.register").STATEMENTS
    counts: dict[str, int] = {}
    true_rows, false_rows = [["id", "claim", "verdict", "layers"]], [["id", "claim"]]
    for statement in statements:
        entry = record.get(statement.id, {"verdict": "open", "layers": {}})
        verdict = entry["verdict"]
        counts[verdict] = counts.get(verdict, 0) + 1
        values.statements[statement.id] = {"verdict": verdict, "title": statement.title}
        if verdict == "refuted":
            false_rows.append([statement.id, written(statement.claim)])
        else:
            methods = sorted({key.split(":")[0] for key in entry["layers"]})
            true_rows.append([statement.id, written(statement.claim), verdict, ", ".join(methods)])
    values.tables["ledger"], values.tables["refuted"] = true_rows, false_rows
    values.texts["ledger.count"] = str(len(statements))
    for verdict in ("proved", "checked", "refuted", "open"):
        values.texts[f"ledger.{verdict}"] = str(counts.get(verdict, 0))


def written(claim: str) -> str:
    """A claim with mathematical signs."""
    for plain, shown in WRITTEN.items():
        claim = re.sub(plain, shown, claim)
    return claim
