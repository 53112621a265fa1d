"""What each kind of decision costs in barrier time, from the gaps of a few policies.

With A the optimum at the exact tick's own admissions and B the optimum over all schedules,

    BR-0 - B  =  (BR-0 - exact tick)  +  (exact tick - A)  +  (A - B)
                  two-stage rule          greedy ticks          online

and beside it BR-0 against the best replicas at its own admissions (placement), what BR-H with the
oracle saves against BR-0 (perfect prediction) and what it loses with the survival predictor instead
(prediction error). The last two and the two-stage rule can be negative: they compare policies.
"""

from collections.abc import Sequence

from solvers.gap.document import Decomposition
from solvers.gap.measure import RouterGap

BR0, EXACT, ORACLE, SURVIVAL = "br0", "exact-tick", "brh", "brh:survival"


def decomposition(gaps: Sequence[RouterGap]) -> Decomposition:
    """Parts of one instance in the integer unit of barrier time; None where not measured.

    Parameters
    ----------
    gaps
        Of ``br0``, ``exact-tick``, ``brh`` and ``brh:survival``, as far as they were replayed.
    """
    by_name = {gap.router: gap for gap in gaps}
    br0, exact = by_name.get(BR0), by_name.get(EXACT)
    return Decomposition(
        br0_time=None if br0 is None else br0.time.value,
        placement=None if br0 is None else list(br0.time.absolute),
        two_stage_rule=_difference(by_name, BR0, EXACT),
        greedy_ticks=None if exact is None else list(exact.time.absolute),
        online=None if exact is None else _online(exact),
        perfect_prediction=_difference(by_name, BR0, ORACLE),
        prediction_error=_difference(by_name, SURVIVAL, ORACLE),
    )


def _difference(by_name: dict[str, RouterGap], first: str, second: str) -> int | None:
    if first not in by_name or second not in by_name:
        return None
    return by_name[first].time.value - by_name[second].time.value


def _online(exact: RouterGap) -> list[int | None]:
    """A - B >= 0 with both optima known to lie in intervals."""
    fixed, free = exact.time, exact.time_any
    least = None if free.incumbent is None else max(0, fixed.bound - free.incumbent)
    return [least, None if fixed.incumbent is None else fixed.incumbent - free.bound]
