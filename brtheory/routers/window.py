"""The window router: prediction-free, beyond the paper (model-and-routers.md section 5).

While a slot is free and the pool is not empty: the replica with the smallest L among those with a
free slot, ties to the lower index, takes of the K oldest requests the one with the largest

    (-|L_g + s - T| - w*(L_g + s - M)_+ + floor(lambda_s*wait), prompt)
    T = (sum of the other loads) // max(G - 1, 1),   M = max L,   w = ``overflow_weight``
    lambda_s = lambda * (1 + ``size_weight`` * (s / mean prompt - 1)_+)

ties to the older; loads are refreshed after each. lambda = ``wait_scale`` * mean prompt / mean wait
of the requests admitted before this tick (the last ``memory`` of them), 0 until a wait is known.
(The mean, not section 5's median: which requests are chosen does not change it. Serving newcomers
first drives the median to 0 and lambda up, then the pool goes by age, the median rises, and so on.)
While there are at least as many free slots as requests, all of them find a place and the longest
prompt goes first. Three rules come before the key:

* A request that has waited longer than ``age_limit`` median waits, and than ``age_floor_s``, goes
  first, the oldest of them before all.
* Another one younger than ``hold_s`` is held back where it would raise M while a lighter replica
  has no free slot: one may be free soon. Not where the mean wait is over half of ``hold_s``: then
  the pool is what there is to choose from.
* Where KV capacity is limited only requests with room are offered, and only replicas are served
  whose free KV is at least ``room_share`` of the mean reservation of the K oldest requests: else
  short requests take every room before it is large enough for a long one.

A replica to which nothing can be offered is closed for the rest of the tick. The key mixes
distances and an age; it is no F-score, so admissions carry neither stage nor score.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brtheory.core.admission import Admission
from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState, check_state
from brtheory.errors import InputError
from brtheory.routers.params import WindowParams

LARGEST_BONUS = 2.0**62
"""floor(lambda*wait) is held within this, which keeps the key within 64 bits."""
LONGEST_WAIT_US = 2.0**46
"""About two years: 2^16 of them stay within 64 bits."""
SORT_ANEW = 64
"""From this many new waits on, sorting all is faster than inserting each."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What the router has learned when a tick begins.

    Parameters
    ----------
    wait_weight
        lambda, tokens per second.
    longest_wait_s
        The hard age limit in seconds, infinite where there is none.
    mean_prompt
        Mean prompt of the remembered requests, 0 where nothing is remembered.
    hold_s
        Age in seconds up to which a request may be held, 0 where none is.
    """

    wait_weight: float
    longest_wait_s: float
    mean_prompt: float
    hold_s: float


class WaitStatistics:
    """Prompts and waits of the last ``memory`` admitted requests.

    Parameters
    ----------
    memory
        Requests remembered, >= 1.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._recent: deque[tuple[int, float]] = deque()
        self._ordered: list[float] = []
        self._prompt_tokens = 0
        self._wait_us = 0

    def add(self, prompt_tokens: int, wait_s: float) -> None:
        """Remember an admitted request, and forget the oldest one beyond the memory."""
        if len(self._recent) == self._memory:
            oldest_tokens, oldest_wait = self._recent.popleft()
            self._prompt_tokens -= oldest_tokens
            self._wait_us -= microseconds(oldest_wait)
            del self._ordered[bisect_left(self._ordered, oldest_wait)]
        self._recent.append((prompt_tokens, wait_s))
        self._prompt_tokens += prompt_tokens
        self._wait_us += microseconds(wait_s)
        insort(self._ordered, wait_s)

    def add_all(self, admitted: Sequence[tuple[int, float]]) -> None:
        """Remember admitted requests (prompt, wait) in order, as ``add`` one by one would."""
        if len(admitted) < SORT_ANEW:
            for prompt_tokens, wait_s in admitted:
                self.add(prompt_tokens, wait_s)
            return
        self._recent.extend(admitted)
        while len(self._recent) > self._memory:
            self._recent.popleft()
        self._ordered = sorted(wait for _, wait in self._recent)
        self._prompt_tokens = sum(prompt for prompt, _ in self._recent)
        self._wait_us = sum(microseconds(wait) for _, wait in self._recent)

    @property
    def median_wait_s(self) -> float:
        """Lower median of the remembered waits in seconds, 0 where nothing is remembered."""
        return self._ordered[(len(self._ordered) - 1) // 2] if self._ordered else 0.0

    @property
    def mean_wait_s(self) -> float:
        """Mean of the remembered waits in seconds, 0 where nothing is remembered."""
        return float(self._wait_us) / (1e6 * len(self._ordered)) if self._ordered else 0.0

    @property
    def mean_prompt(self) -> float:
        """Mean of the remembered prompts, 0 where nothing is remembered."""
        return float(self._prompt_tokens) / len(self._ordered) if self._ordered else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Mean prompt / mean wait, 0 until a positive mean wait is known."""
        mean = self.mean_wait_s
        return self.mean_prompt / mean if mean > 0 else 0.0


class Window:
    """The window router.

    Parameters
    ----------
    params
        See ``WindowParams``.
    """

    def __init__(self, params: WindowParams) -> None:
        self.params = params
        self.statistics = WaitStatistics(params.memory)

    @property
    def horizon(self) -> int:
        """H = 0: present loads only."""
        return 0

    @property
    def hold_s(self) -> float:
        """As ``HoldingRouter``."""
        return self.params.hold_s

    def tick(self, state: TickState) -> list[Admission]:
        """Decide one tick, then learn from the waits of what was admitted.

        Raises
        ------
        InputError
            If the state does not fit (``check_state``) or is beyond the exact token limit.
        """
        check_state(state, horizon=0)
        check_window_limit(state.loads, [r.prompt_tokens for r in state.pool], self.params)
        ledger, pool = TickLedger(state), list(state.pool)
        admitted = list(self._decide(ledger, pool, state.now_s))
        self.statistics.add_all(
            [(request.prompt_tokens, state.now_s - request.ready_s) for request, _ in admitted]
        )
        return [Admission(request.id, replica) for request, replica in admitted]

    def wait_weight(self) -> float:
        """Tokens a second of waiting is worth, lambda: given, or learned so far."""
        given = self.params.wait_weight
        return self.params.wait_scale * self.statistics.tokens_per_s if given is None else given

    def longest_wait_s(self) -> float:
        """The hard age limit in seconds, infinite where there is none or it is not known yet."""
        if self.params.age_limit is None:
            return math.inf
        learned = self.params.age_limit * self.statistics.median_wait_s
        # Where waits are as short as a step, a multiple of them would end every hold at once.
        limit = max(learned, self.params.age_floor_s)
        return limit if limit > 0 else math.inf

    def patience(self) -> Patience:
        """What has been learned so far."""
        statistics, hold_s = self.statistics, self.params.hold_s
        held_s = 0.0 if 2 * statistics.mean_wait_s > hold_s else hold_s
        return Patience(self.wait_weight(), self.longest_wait_s(), statistics.mean_prompt, held_s)

    def _decide(
        self, ledger: TickLedger, pool: list[Request], now_s: float
    ) -> Iterator[tuple[Request, int]]:
        patience = self.patience()
        room = least_room([r.reserved_tokens for r in pool[: self.params.window]], self.params)
        for replica in range(ledger.replicas):
            _close_without(room, ledger, replica)
        while ledger.total_free_slots > 0 and pool:
            open_replicas = [g for g in range(ledger.replicas) if ledger.cap[g] > 0]
            replica = min(open_replicas, key=lambda g: ledger.rows[g][0])
            oldest = pool[: self.params.window]
            fitting = [request for request in oldest if ledger.fits([request], replica)]
            spare = len(pool) <= ledger.total_free_slots
            request = self._choose(fitting, ledger, replica, now_s, patience, spare=spare)
            if request is None:
                ledger.close(replica)
            else:
                ledger.admit([request], replica)
                _close_without(room, ledger, replica)
                pool.remove(request)
                yield request, replica

    def _choose(
        self,
        fitting: Sequence[Request],
        ledger: TickLedger,
        replica: int,
        now_s: float,
        patience: Patience,
        *,
        spare: bool,
    ) -> Request | None:
        for request in fitting:
            if now_s - request.ready_s > patience.longest_wait_s:
                return request
        offered = not_held(fitting, ledger, replica, now_s=now_s, hold_s=patience.hold_s)
        if not offered:
            return None
        if spare and self.params.spare_order == "longest":
            return max(offered, key=lambda request: request.prompt_tokens)
        loads = [row[0] for row in ledger.rows]
        room, margin = _target(loads, replica) - loads[replica], ledger.margin(replica)
        per_token = ledger.per_token(replica)  # sizes and bonus count in the unit of the loads

        def key(request: Request) -> tuple[int, int]:
            size = request.prompt_tokens
            weight = patience.wait_weight * size_factor(size, patience, self.params)
            bonus = wait_bonus(now_s - request.ready_s, weight)
            added = per_token * size
            cost = abs(added - room) + self.params.overflow_weight * max(0, added - margin)
            return per_token * bonus - cost, size

        return max(offered, key=key)


def not_held(
    fitting: Sequence[Request], ledger: TickLedger, replica: int, *, now_s: float, hold_s: float
) -> list[Request]:
    """Requests that need not wait for a lighter replica to have a free slot."""
    load, margin = ledger.rows[replica][0], ledger.margin(replica)
    lighter = (ledger.rows[g][0] < load for g in range(ledger.replicas) if ledger.cap[g] == 0)
    if not any(lighter):
        return list(fitting)
    per_token = ledger.per_token(replica)
    return [
        request
        for request in fitting
        if per_token * request.prompt_tokens <= margin or now_s - request.ready_s >= hold_s
    ]


def microseconds(wait_s: float) -> int:
    """A wait in whole microseconds, held within +-2^46, so that sums of them are exact."""
    return int(min(max(wait_s * 1e6, -LONGEST_WAIT_US), LONGEST_WAIT_US))


def size_factor(prompt_tokens: int, patience: Patience, params: WindowParams) -> float:
    """lambda_s / lambda: 1 up to the mean prompt, and ``size_weight`` more for each one beyond."""
    if params.size_weight == 0 or patience.mean_prompt == 0:
        return 1.0
    beyond = float(prompt_tokens) / patience.mean_prompt - 1.0
    return 1.0 + params.size_weight * max(beyond, 0.0)


def wait_bonus(wait_s: float, weight: float) -> int:
    """floor(lambda*wait) in tokens, held within +-2^62."""
    return math.floor(min(max(weight * wait_s, -LARGEST_BONUS), LARGEST_BONUS))


def least_room(reserved_tokens: Sequence[int], params: WindowParams) -> int:
    """KV tokens a replica must have free to be served, from the reservations of the K oldest."""
    if not reserved_tokens:
        return 0
    mean = float(sum(reserved_tokens)) / float(len(reserved_tokens))
    return math.floor(params.room_share * mean)


def window_token_limit(replicas: int, params: WindowParams) -> int:
    """Largest load and largest sum of prompts that keep every sum of the router in 64 bits."""
    # |L + s - T| + w*(L + s - M)_+ <= (2 + w) * limit leaves 2^62 for the bonus.
    return int(LARGEST_BONUS) // max(replicas, params.memory, 2 + params.overflow_weight)


def check_window_limit(
    loads: Sequence[Sequence[int]], prompts: Sequence[int], params: WindowParams
) -> None:
    """Refuse a tick whose keys could leave 64-bit integers.

    Raises
    ------
    InputError
        If a load or the sum of the pool's prompts exceeds ``window_token_limit``.
    """
    limit = window_token_limit(len(loads), params)
    for replica, row in enumerate(loads):
        if row[0] > limit:
            raise InputError(f"replica {replica}", f"loads <= {limit} tokens", row[0])
    total = sum(prompts)
    if total > limit:
        raise InputError("pool", f"at most {limit} prompt tokens in all", total)


def _close_without(room: int, ledger: TickLedger, replica: int) -> None:
    """Take the replica out of this tick where it has not so much KV free."""
    if not ledger.fits([Request(-1, 1, reserved_tokens=room)], replica):
        ledger.close(replica)


def _target(loads: Sequence[int], replica: int) -> int:
    """T: the mean load of the other replicas, rounded down."""
    return (sum(loads) - loads[replica]) // max(len(loads) - 1, 1)
