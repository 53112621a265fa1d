"""Which production code each kernel theorem speaks of.

The Coq functions are written to read like this code. What ties the two together is checked
elsewhere (execution, search, and T29 for the tick); what is kept here is that a change on either
side does not go unnoticed.
"""

from brtheory.analysis.extremes import expected_max_exponential, expected_max_uniform
from brtheory.core.fscore import f_score, one_step_weights
from brtheory.core.imbalance import imbalance, margins, peak, spread
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import OfflineRequest
from brtheory.routers.baselines import LeastOf
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from solvers.ready_together import ready_together, without_idle_steps

_IMBALANCE = (imbalance, margins, peak)
_TICK = (BalanceRoute, BalanceRouteHorizon)
_HOLDING = (ready_together, without_idle_steps)
_EXTREMES = (expected_max_exponential, expected_max_uniform)

THEOREMS: dict[str, tuple[object, ...]] = {
    "Imbalance.increment": (f_score, one_step_weights, *_IMBALANCE),
    "Imbalance.imbalance_bounds": (*_IMBALANCE, spread),
    "Imbalance.imbalance_zero": _IMBALANCE,
    "Imbalance.departure": _IMBALANCE,
    "Imbalance.reflected": _IMBALANCE,
    "Imbalance.decode_step": _IMBALANCE,
    "Imbalance.reflected_walk": _IMBALANCE,
    "Conservation.conservation": (evaluate, OfflineRequest),
    "Conservation.imbalance_is_barrier_time": (evaluate, OfflineRequest),
    "Holding.same_loads": _HOLDING,
    "Holding.one_piece": _HOLDING,
    "Holding.nothing_else": _HOLDING,
    "Holding.not_before": _HOLDING,
    "Adversary.ratio_attained": (LeastOf,),
    "Adversary.ratio_never_exceeded": (LeastOf,),
    "Tick.tick_guarantees": _TICK,
    "BalanceRoute.balance_route_valid": _TICK,
    "BalanceRoute.balance_route_eager": _TICK,
    "BalanceRoute.balance_route_guarantees": _TICK,
    "BalanceRoute.value_is_gain": (*_TICK, *_IMBALANCE),
    "Extremes.primitive_is_one": _EXTREMES,
    "Extremes.tail_is_geometric": _EXTREMES,
    "Extremes.exponential_maximum": _EXTREMES,
    "Extremes.weighted_density_is": _EXTREMES,
    "Extremes.uniform_maximum": _EXTREMES,
    "Extremes.exponential_idle": _EXTREMES,
    "Extremes.uniform_idle": _EXTREMES,
}
"""'Module.theorem' and the functions and classes it is about."""
