"""What each kind of decision costs in barrier time, from the gaps of a few policies.

With A the optimum at the exact tick's own admissions, W the fastest schedule in which nobody waits
beside a free slot and B the fastest of all, which may wait for every request,

    BR-0 - B  =  (BR-0 - exact tick)  +  (exact tick - A)  +  (A - W)  +  (W - B)
                  two-stage rule          greedy ticks          online      holding

and beside it BR-0 against the best replicas at its own admissions (placement), what BR-H with the
oracle saves against BR-0 (perfect prediction) and what it loses with the survival predictor instead
(prediction error). The last two and the two-stage rule can be negative: they compare policies.
"""

from collections.abc import Sequence

from solvers.gap.document import Decomposition
from solvers.gap.measure import Gap, RouterGap

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
        holding=None if exact is None else _holding(exact),
        perfect_prediction=_difference(by_name, BR0, ORACLE),
        prediction_error=_difference(by_name, SURVIVAL, ORACLE),
    )


def _difference(by_name: dict[str, RouterGap], first: str, second: str) -> int | None:
    if first not in by_name or second not in by_name:
        return None
    return by_name[first].time.value - by_name[second].time.value


def _online(exact: RouterGap) -> list[int | None] | None:
    """A - W with both optima known to lie in intervals."""
    fixed, conserving = exact.time, exact.time_conserving
    return None if conserving is None else _between(fixed, conserving)


def _holding(exact: RouterGap) -> list[int | None] | None:
    """W - B >= 0: waiting is one schedule more."""
    if exact.time_conserving is None:
        return None
    least, most = _between(exact.time_conserving, exact.time_any)
    return [None if least is None else max(0, least), most]


def _between(first: Gap, second: Gap) -> list[int | None]:
    """First optimum minus second: [least, most]."""
    return [
        None if second.incumbent is None else first.bound - second.incumbent,
        None if first.incumbent is None else first.incumbent - second.bound,
    ]
