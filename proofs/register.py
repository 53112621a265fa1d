"""All statements, in the order of the ledger."""

from proofs.statement import Statement
from proofs.topics import (
    choice,
    horizon,
    horizon_exactness,
    imbalance_laws,
    increment,
    placement,
    score,
    tick,
)

STATEMENTS: tuple[Statement, ...] = (
    *increment.STATEMENTS,
    *score.STATEMENTS,
    *choice.STATEMENTS,
    *imbalance_laws.STATEMENTS,
    *placement.STATEMENTS,
    *horizon.STATEMENTS,
    *horizon_exactness.STATEMENTS,
    *tick.STATEMENTS,
)
