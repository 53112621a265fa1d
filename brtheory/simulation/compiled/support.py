"""What compiled runs cover; everything else is the engine's.

Nothing here imports numba, so that asking costs nothing.
"""

import numpy as np

from brtheory.prediction.oracle import OraclePredictor
from brtheory.prediction.protocol import Predictor
from brtheory.routers.baselines import (
    EngineScore,
    JoinShortestQueue,
    LeastTokens,
    PoolFifo,
    RoundRobin,
)
from brtheory.routers.protocol import Router, following, projection_rules
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from brtheory.routers.window import Window
from brtheory.simulation.plan import ArrivalPlan
from brtheory.simulation.workload import Lengths

ROUTERS = (
    JoinShortestQueue,
    LeastTokens,
    EngineScore,
    RoundRobin,
    PoolFifo,
    Window,
    BalanceRoute,
    BalanceRouteHorizon,
)
WORK_LIMIT = 2.0**61
"""Token-steps whose sum stays within 64 bits, with room for float rounding."""


def supported(
    lengths: Lengths, router: Router, arrivals: ArrivalPlan, predictor: Predictor | None
) -> bool:
    """Whether ``run_compiled`` gives the engine's results for this run."""
    return (
        type(router) in ROUTERS
        and following(router) is None
        and projection_rules(router).growth
        and (predictor is None or type(predictor) is OraclePredictor)
        and _work(lengths) < WORK_LIMIT
        and _in_order(arrivals)
    )


def _work(lengths: Lengths) -> float:
    prompts = lengths.prompt_tokens.astype(np.float64)
    outputs = lengths.output_tokens.astype(np.float64)
    return float((outputs * prompts + outputs * outputs / 2).sum())


def _in_order(arrivals: ArrivalPlan) -> bool:
    """Equal prompts become ready in file order, as the sorted pool takes for granted."""
    for column in (arrivals.arrival_s, arrivals.ready_step):
        if column is not None and bool((column[1:] < column[:-1]).any()):
            return False
    return True
