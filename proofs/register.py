"""All statements, in the order of the ledger: T, then N, then R, each by number."""

from proofs.statement import Statement
from proofs.topics import (
    choice,
    conservation,
    extremes,
    fast_ticks,
    from_empty,
    holding,
    horizon,
    horizon_exactness,
    imbalance_laws,
    increment,
    kv_room,
    order_and_room,
    placement,
    prediction,
    pure_functions,
    randomised,
    refuted_horizon,
    refuted_laws,
    refuted_reports,
    refuted_routing,
    refuted_score,
    score,
    subset_sum,
    suprema,
    tick,
    unequal,
    window,
    window_choice,
    window_room,
    worst_cases,
)

_FAMILIES = "TNR"


def _order(statement: Statement) -> tuple[int, int, str]:
    family, rest = statement.id[0], statement.id[1:]
    return _FAMILIES.index(family), int(rest.rstrip("'")), rest


STATEMENTS: tuple[Statement, ...] = tuple(
    sorted(
        (
            *increment.STATEMENTS,
            *score.STATEMENTS,
            *choice.STATEMENTS,
            *subset_sum.STATEMENTS,
            *imbalance_laws.STATEMENTS,
            *placement.STATEMENTS,
            *order_and_room.STATEMENTS,
            *kv_room.STATEMENTS,
            *unequal.STATEMENTS,
            *conservation.STATEMENTS,
            *holding.STATEMENTS,
            *horizon.STATEMENTS,
            *horizon_exactness.STATEMENTS,
            *prediction.STATEMENTS,
            *tick.STATEMENTS,
            *fast_ticks.STATEMENTS,
            *window.STATEMENTS,
            *window_choice.STATEMENTS,
            *window_room.STATEMENTS,
            *pure_functions.STATEMENTS,
            *worst_cases.STATEMENTS,
            *randomised.STATEMENTS,
            *suprema.STATEMENTS,
            *from_empty.STATEMENTS,
            *extremes.STATEMENTS,
            *refuted_score.STATEMENTS,
            *refuted_horizon.STATEMENTS,
            *refuted_routing.STATEMENTS,
            *refuted_reports.STATEMENTS,
            *refuted_laws.STATEMENTS,
        ),
        key=_order,
    )
)
