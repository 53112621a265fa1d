"""The record: each layer's last verdict, its date, and what the code looked like then.

It is kept beside the statements as ``record.json``. A quick run shows its verdicts for the layers
it leaves out, and only where neither the claim nor the code has changed since.
"""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

from brtheory.contracts import Contract, read_contract
from brtheory.files import write_text_atomic
from proofs.binding import changes, claim_fingerprint, code_fingerprints
from proofs.statement import Statement, Verdict

RECORD_PATH = Path(__file__).with_name("record.json")


class LayerRecord(Contract):
    """One layer's last verdict, and the day it was found."""

    verdict: str
    detail: str
    seconds: float
    date: str


class StatementRecord(Contract):
    """What the layers of one statement last found of the same claim and code.

    Parameters
    ----------
    date
        Day on which the last of them ran, ISO 8601.
    verdict
        All layers together, open where a needed one is missing.
    claim
        Fingerprint of the claim; ``code`` those of the production code by name.
    layers
        By ``Layer.key``.
    """

    date: str
    verdict: str
    claim: str
    code: dict[str, str]
    layers: dict[str, LayerRecord]

    def changes(self, statement: Statement) -> list[str]:
        """Say what changed since, one line each."""
        return changes(statement, recorded_code=self.code, recorded_claim=self.claim)


Record = dict[str, StatementRecord]
"""By statement id."""


class RecordDocument(Contract):
    """The record as JSON."""

    statements: dict[str, StatementRecord]


def read_record(path: Path = RECORD_PATH) -> Record:
    """Read the record; empty where there is none yet.

    Raises
    ------
    InputError
        With ``file:line`` if it does not fit.
    """
    return read_contract(path, RecordDocument).statements if path.exists() else {}


def write_record(record: Record, path: Path = RECORD_PATH) -> None:
    """Write the record, statements sorted by id."""
    statements = {name: record[name].model_dump() for name in sorted(record)}
    write_text_atomic(path, json.dumps({"statements": statements}, indent=1) + "\n")


def update_record(change: Callable[[Record], Record], path: Path = RECORD_PATH) -> None:
    """Read the record, change it and write it; processes that do so wait for each other."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # not the file: writing replaces it
        write_record(change(read_record(path)), path)
    finally:
        os.close(folder)


def record_of(
    statement: Statement, *, date: str, verdict: Verdict, layers: dict[str, LayerRecord]
) -> StatementRecord:
    """Record one statement with the present fingerprints."""
    return StatementRecord(
        date=date,
        verdict=str(verdict),
        claim=claim_fingerprint(statement),
        code=code_fingerprints(statement),
        layers=layers,
    )
