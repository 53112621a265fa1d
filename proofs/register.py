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
    refuted_horizon,
    refuted_reports,
    refuted_routing,
    refuted_score,
    score,
    suprema,
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
    *suprema.STATEMENTS,
    *extremes.STATEMENTS,
    *refuted_score.STATEMENTS,
    *refuted_horizon.STATEMENTS,
    *refuted_routing.STATEMENTS,
    *refuted_reports.STATEMENTS,
    *refuted_score.MORE_STATEMENTS,
)
