"""The ledger: runs the layers of statements and says what each found, how long, and since when.

The paper and the documentation read it; they never type a verdict.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from proofs.binding import code_fingerprints
from proofs.record import LayerRecord, Record, StatementRecord, record_of
from proofs.statement import (
    NOT_RUN_HERE,
    Layer,
    Method,
    Outcome,
    Statement,
    Verdict,
    agrees,
    combined,
    layer_key,
)


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer in the ledger.

    Parameters
    ----------
    method, scope, key
        As in ``Layer``.
    outcome
        What this run found, None where it was not run here.
    seconds
        Wall time of this run, None where it was not run here.
    recorded
        Last recorded verdict and its date for a layer not run here; None without a record, or
        where the claim or its code has changed since.
    needed
        Whether the statement stays open without it; nightly layers only widen others.
    """

    method: Method
    scope: str
    outcome: Outcome | None
    seconds: float | None
    recorded: tuple[Verdict, str] | None
    needed: bool = True

    @property
    def key(self) -> str:
        """Name of the layer within its statement."""
        return layer_key(self.method, self.scope)

    @property
    def verdict(self) -> Verdict | None:
        """Of this run, else the recorded one, else None."""
        if self.outcome is not None:
            return self.outcome.verdict
        return None if self.recorded is None else self.recorded[0]

    @property
    def summary(self) -> str:
        """E.g. 'smt proved' or 'execution not run here (checked on 2026-11-29)'."""
        if self.outcome is not None:
            return f"{self.method} {self.outcome.verdict}"
        if self.recorded is None:
            return f"{self.method} {NOT_RUN_HERE}"
        return f"{self.method} {NOT_RUN_HERE} ({self.recorded[0]} on {self.recorded[1]})"


@dataclass(frozen=True, slots=True)
class Row:
    """One statement in the ledger."""

    statement: Statement
    layers: tuple[LayerRow, ...]

    @property
    def verdict(self) -> Verdict:
        """All layers together; a needed layer without any verdict leaves the statement open."""
        found = [layer.verdict for layer in self.layers if layer.needed or layer.verdict]
        return combined(Verdict.OPEN if verdict is None else verdict for verdict in found)

    @property
    def seconds(self) -> float:
        """Wall time of the layers run here."""
        return sum(layer.seconds or 0.0 for layer in self.layers)

    @property
    def surprises(self) -> list[LayerRow]:
        """Layers run here that disagree with what the statement stands for."""
        expected = self.statement.expected
        return [
            layer
            for layer in self.layers
            if layer.outcome is not None and not agrees(layer.outcome.verdict, expected=expected)
        ]

    @property
    def as_expected(self) -> bool:
        """Whether no layer that ran disagrees."""
        return not self.surprises

    def to_json(self) -> dict[str, object]:
        """As printed by ``brtheory prove --json``."""
        statement = self.statement
        return {
            "id": statement.id,
            "title": statement.title,
            "claim": statement.claim,
            "latex": statement.latex,
            "hypotheses": list(statement.hypotheses),
            "source": statement.source,
            "verdict": str(self.verdict),
            "expected": str(statement.expected),
            "as_expected": self.as_expected,
            "layers": [_layer_json(layer) for layer in self.layers],
            "seconds": round(self.seconds, 3),
        }


Progress = Callable[[Statement, LayerRow], None]
"""Called with a statement and its layer that has just finished, run or left out."""


def run(
    statements: Sequence[Statement],
    *,
    quick: bool = False,
    nightly: bool = False,
    resume: bool = False,
    record: Record | None = None,
    on_layer: Progress | None = None,
) -> list[Row]:
    """Run the layers of statements.

    Parameters
    ----------
    statements
        In the order of the result.
    quick
        Leave out the layers that do not fit in a minute together.
    nightly
        Run the nightly layers too.
    resume
        Leave out the layers of which the record has the verdict the statement stands for, found of
        this claim and this code.
    record
        Last recorded verdicts, for the layers left out.
    on_layer
        Told after each layer, run or left out.
    """
    known = {} if record is None else record
    for statement in statements:
        code_fingerprints(statement)  # reads the sources now, as they were imported
    rows = []
    for statement in statements:
        last = _usable(known.get(statement.id), statement)
        layers = []
        for layer in statement.layers:
            late = (quick and not layer.quick) or (layer.nightly and not nightly)
            done = resume and _stands(layer, last, expected=statement.expected)
            leave_out = late or done or not layer.available()
            layers.append(_layer_row(layer, last, leave_out=leave_out))
            if on_layer is not None:
                on_layer(statement, layers[-1])
        rows.append(Row(statement, tuple(layers)))
    return rows


def recorded(statement: Statement, found: LayerRow, record: Record, *, date: str) -> Record:
    """The record with what one layer has found.

    What other layers found stays beside it as long as it is of this claim and this code. Otherwise
    the statement's record begins anew, and is open until each of its needed layers has run.

    Parameters
    ----------
    statement, found
        The statement, and its layer; one that was left out changes nothing.
    record
        What was known before.
    date
        Day of the run, ISO 8601.
    """
    if found.outcome is None or found.seconds is None:
        return record
    last = _usable(record.get(statement.id), statement)
    layers = {} if last is None else dict(last.layers)
    layers[found.key] = LayerRecord(
        verdict=str(found.outcome.verdict),
        detail=found.outcome.detail,
        seconds=found.seconds,
        date=date,
    )
    verdict = _recorded_verdict(statement, layers)
    new = record_of(statement, date=date, verdict=verdict, layers=layers)
    return {**record, statement.id: new}


def layer_count(statements: Iterable[Statement]) -> int:
    """How often ``on_layer`` will be called."""
    return sum(len(statement.layers) for statement in statements)


def _recorded_verdict(statement: Statement, layers: Mapping[str, LayerRecord]) -> Verdict:
    """All recorded layers together; a needed one without a record leaves the statement open."""
    found = [layers.get(layer.key) for layer in statement.layers]
    return combined(
        Verdict.OPEN if known is None else Verdict(known.verdict)
        for layer, known in zip(statement.layers, found, strict=True)
        if known is not None or not layer.nightly
    )


def _usable(last: StatementRecord | None, statement: Statement) -> StatementRecord | None:
    """The record, unless the claim or its code has changed since."""
    return None if last is None or last.changes(statement) else last


def _stands(layer: Layer, last: StatementRecord | None, *, expected: Verdict) -> bool:
    """Whether the record has this layer's verdict, as the statement stands for it."""
    found = None if last is None else last.layers.get(layer.key)
    return found is not None and agrees(Verdict(found.verdict), expected=expected)


def _layer_row(layer: Layer, last: StatementRecord | None, *, leave_out: bool) -> LayerRow:
    needed = not layer.nightly
    if not leave_out:
        start = time.perf_counter()
        outcome = layer.check()
        seconds = round(time.perf_counter() - start, 3)
        return LayerRow(layer.method, layer.scope, outcome, seconds, None, needed)
    found = None if last is None else last.layers.get(layer.key)
    known = None if found is None else (Verdict(found.verdict), found.date)
    return LayerRow(layer.method, layer.scope, None, None, known, needed)


def _layer_json(layer: LayerRow) -> dict[str, object]:
    found, known = layer.outcome, layer.recorded
    return {
        "method": str(layer.method),
        "scope": layer.scope,
        "status": NOT_RUN_HERE if found is None else "run",
        "verdict": None if layer.verdict is None else str(layer.verdict),
        "detail": None if found is None else found.detail,
        "witness": None if found is None else found.witness,
        "recorded_on": None if known is None else known[1],
        "seconds": layer.seconds,
        "nightly": not layer.needed,
    }
