"""The manifest: what each kernel theorem says, on what it rests, and the code it is bound to.

``manifest.json`` stands beside the Coq sources. A theorem counts only while the statement and the
axioms that Coq prints, the definitions they use and the production code are those of the manifest;
so a theorem cannot be weakened, an axiom added, a definition bent or the product changed without
a test saying so. After a change that is meant: ``python -m proofs.kernel``.
"""

import json
import re
from hashlib import sha256
from pathlib import Path

from brtheory.contracts import Contract, read_contract
from brtheory.files import write_text_atomic
from proofs.binding import fingerprints
from proofs.kernel.bound import THEOREMS
from proofs.kernel.development import LIBRARY, SOURCES, Theorem

ERRORS = "brtheory.errors."
MANIFEST_PATH = SOURCES / "manifest.json"

COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
PROVED_TEXT = re.compile(r"^(?:Lemma|Theorem|Corollary)\b.*?\bQed\.", re.DOTALL | re.MULTILINE)
NEEDED = re.compile(rf"From {LIBRARY} Require Import ([^.]*)\.")


class TheoremRecord(Contract):
    """One theorem in the manifest.

    Parameters
    ----------
    statement
        As Coq prints it.
    digest
        Hash of the statement.
    definitions
        Hash of all definitions of its file and of the files that one needs.
    axioms
        Names of the axioms it rests on.
    code
        Fingerprints of the production code it is about, by name.
    """

    statement: str
    digest: str
    definitions: str
    axioms: list[str]
    code: dict[str, str]


class ManifestDocument(Contract):
    """The manifest as JSON."""

    theorems: dict[str, TheoremRecord]


def read_manifest(path: Path = MANIFEST_PATH) -> dict[str, TheoremRecord]:
    """Read the manifest, by 'Module.theorem'.

    Raises
    ------
    InputError
        With ``file:line`` if it does not fit.
    """
    return read_contract(path, ManifestDocument).theorems


def write_manifest(theorems: dict[str, Theorem], path: Path = MANIFEST_PATH) -> None:
    """Write what the theorems are now, sorted by name."""
    records = {name: record_of(name, theorems[name]).model_dump() for name in sorted(theorems)}
    write_text_atomic(path, json.dumps({"theorems": records}, indent=1, ensure_ascii=False) + "\n")


def record_of(name: str, theorem: Theorem) -> TheoremRecord:
    """Record of one theorem, with the present definitions and code."""
    return TheoremRecord(
        statement=theorem.statement,
        digest=_digest(theorem.statement),
        definitions=definitions_digest(name.split(".", 1)[0]),
        axioms=list(theorem.axioms),
        code=code_of(name),
    )


def proof_changes(record: TheoremRecord, theorem: Theorem) -> list[str]:
    """Say what Coq now prints differently, one line each; empty if nothing."""
    lines = []
    if _digest(theorem.statement) != record.digest or theorem.statement != record.statement:
        lines.append(f"the statement changed: {theorem.statement}")
    if list(theorem.axioms) != record.axioms:
        lines.append(f"the axioms changed: {', '.join(theorem.axioms) or 'none'}")
    return lines


def source_changes(name: str, record: TheoremRecord) -> list[str]:
    """Say what changed in definitions and production code; needs no Coq."""
    lines = []
    if definitions_digest(name.split(".", 1)[0]) != record.definitions:
        lines.append("the definitions it uses changed")
    now = code_of(name)
    names = sorted(now.keys() | record.code.keys())
    changed = [part for part in names if now.get(part) != record.code.get(part)]
    return [*lines, *(f"{part} changed" for part in changed)]


def code_of(name: str) -> dict[str, str]:
    """Fingerprints of the production code a theorem is about, by name."""
    found = fingerprints(THEOREMS[name])
    # Errors say how bad input is refused; no theorem speaks of that.
    return {part: digest for part, digest in found.items() if not part.startswith(ERRORS)}


def definitions_digest(module: str, *, directory: Path = SOURCES) -> str:
    """Hash of all that gives statements of a module their meaning: everything but what is proved.

    Parameters
    ----------
    module
        Its name without '.v'; the modules of this development that it needs count too.
    directory
        Where the sources are.
    """
    texts: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in texts:
            source = COMMENT.sub(" ", (directory / f"{name}.v").read_text(encoding="utf-8"))
            texts[name] = " ".join(PROVED_TEXT.sub(" ", source).split())
            waiting += [needed for names in NEEDED.findall(source) for needed in names.split()]
    return _digest("\n".join(texts[name] for name in sorted(texts)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
