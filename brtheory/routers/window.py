"""The window router: prediction-free, beyond the paper (model-and-routers.md section 5).

While a slot is free and the pool is not empty: the replica with the smallest L among those with a
free slot, ties to the lower index, takes of the K oldest requests the one with the largest

    (-|L_g + s - T| + floor(lambda*wait), prompt),   T = (sum of the other loads) // max(G - 1, 1)

ties to the older; loads are refreshed after each. lambda = mean prompt / median wait of the
requests admitted before this tick (the last ``memory`` of them), 0 until a wait is known. A
request that has waited longer than ``age_limit`` median waits goes first, the oldest of them
first. Where KV capacity is limited only requests with room are offered, and a replica with room
for none of them is closed for the rest of the tick.

The key mixes a distance and an age; it is no F-score, so admissions carry neither stage nor score.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence

from brtheory.core.admission import Admission
from brtheory.core.requests import Request
from brtheory.core.tick import TickLedger, TickState, check_state
from brtheory.errors import InputError
from brtheory.routers.params import WindowParams

LARGEST_BONUS = 2.0**62
"""floor(lambda*wait) is held within this, which keeps the key within 64 bits."""
SORT_ANEW = 64
"""From this many new waits on, sorting all is faster than inserting each."""


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

    def add(self, prompt_tokens: int, wait_s: float) -> None:
        """Remember an admitted request, and forget the oldest one beyond the memory."""
        if len(self._recent) == self._memory:
            oldest_tokens, oldest_wait = self._recent.popleft()
            self._prompt_tokens -= oldest_tokens
            del self._ordered[bisect_left(self._ordered, oldest_wait)]
        self._recent.append((prompt_tokens, wait_s))
        self._prompt_tokens += prompt_tokens
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

    @property
    def median_wait_s(self) -> float:
        """Lower median of the remembered waits in seconds, 0 where nothing is remembered."""
        return self._ordered[(len(self._ordered) - 1) // 2] if self._ordered else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Mean prompt / median wait, 0 until a positive median wait is known."""
        median = self.median_wait_s
        if median <= 0:
            return 0.0
        return float(self._prompt_tokens) / len(self._ordered) / median


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
        return self.statistics.tokens_per_s if given is None else given

    def longest_wait_s(self) -> float:
        """The hard age limit in seconds, infinite where there is none or no wait is known."""
        median = self.statistics.median_wait_s
        if self.params.age_limit is None or median <= 0:
            return math.inf
        return self.params.age_limit * median

    def _decide(
        self, ledger: TickLedger, pool: list[Request], now_s: float
    ) -> Iterator[tuple[Request, int]]:
        while ledger.total_free_slots > 0 and pool:
            open_replicas = [g for g in range(ledger.replicas) if ledger.cap[g] > 0]
            replica = min(open_replicas, key=lambda g: ledger.rows[g][0])
            oldest = pool[: self.params.window]
            fitting = [request for request in oldest if ledger.fits([request], replica)]
            if fitting:
                request = self._choose(fitting, ledger, replica, now_s)
                ledger.admit([request], replica)
                pool.remove(request)
                yield request, replica
            else:
                ledger.close(replica)

    def _choose(
        self, fitting: Sequence[Request], ledger: TickLedger, replica: int, now_s: float
    ) -> Request:
        weight, longest = self.wait_weight(), self.longest_wait_s()
        for request in fitting:
            if now_s - request.ready_s > longest:
                return request
        loads = [row[0] for row in ledger.rows]
        room = _target(loads, replica) - loads[replica]
        per_token = ledger.per_token(replica)  # both distance and bonus are worth so much a token

        def key(request: Request) -> tuple[int, int]:
            bonus = per_token * wait_bonus(now_s - request.ready_s, weight)
            return -abs(per_token * request.prompt_tokens - room) + bonus, request.prompt_tokens

        return max(fitting, key=key)


def wait_bonus(wait_s: float, weight: float) -> int:
    """floor(lambda*wait) in tokens, held within +-2^62."""
    return math.floor(min(max(weight * wait_s, -LARGEST_BONUS), LARGEST_BONUS))


def window_token_limit(replicas: int, params: WindowParams) -> int:
    """Largest load and largest sum of prompts that keep every sum of the router in 64 bits."""
    return int(LARGEST_BONUS) // max(replicas, params.memory)


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


def _target(loads: Sequence[int], replica: int) -> int:
    """T: the mean load of the other replicas, rounded down."""
    return (sum(loads) - loads[replica]) // max(len(loads) - 1, 1)
