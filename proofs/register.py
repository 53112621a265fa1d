"""All statements, in the order of the ledger."""

from proofs.statement import Statement
from proofs.topics import (
    choice,
    conservation,
    extremes,
    horizon,
    horizon_exactness,
    imbalance_laws,
    increment,
    placement,
    prediction,
    score,
    tick,
    worst_cases,
)

STATEMENTS: tuple[Statement, ...] = (
    *increment.STATEMENTS,
    *score.STATEMENTS,
    *choice.STATEMENTS,
    *imbalance_laws.STATEMENTS,
    *placement.STATEMENTS,
    *conservation.STATEMENTS,
    *horizon.STATEMENTS,
    *horizon_exactness.STATEMENTS,
    *prediction.STATEMENTS,
    *tick.STATEMENTS,
    *worst_cases.STATEMENTS,
    *extremes.STATEMENTS,
)
