"""All statements, in the order of the ledger."""

from proofs.statement import Statement
from proofs.topics import choice, imbalance_laws, increment, score, tick

STATEMENTS: tuple[Statement, ...] = (
    *increment.STATEMENTS,
    *score.STATEMENTS,
    *choice.STATEMENTS,
    *imbalance_laws.STATEMENTS,
    *tick.STATEMENTS,
)
