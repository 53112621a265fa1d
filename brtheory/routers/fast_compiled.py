"""The compiled ticks as Python calls: options as arrays in, decisions out, refusals in words."""

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.core.fscore import ScoreWeights, check_token_limit
from brtheory.routers import fast_oldest
from brtheory.routers.fast_arrays import Decisions, TickArrays
from brtheory.routers.fast_once_kernels import balance_once, fifo_once, window_once
from brtheory.routers.fast_replica_kernels import MARGIN_FIRST, SLOTS_FIRST
from brtheory.routers.kernels import LARGEST, NEWEST, OLDEST
from brtheory.routers.params import BalanceRouteParams, WindowParams
from brtheory.routers.window import Patience

KEYS = {"slots-first": SLOTS_FIRST, "margin-first": MARGIN_FIRST}
ORDERS = {"oldest": OLDEST, "newest": NEWEST, "largest": LARGEST}
INT64_MAX = 2**63 - 1
_NOTHING: IntArray = np.empty(0, dtype=np.int64)


def decide_balance(
    arrays: TickArrays, weights: ScoreWeights, rules: tuple[IntArray, IntArray]
) -> Decisions:
    """Decide one tick of BR-0 or BR-H by the arrays of ``rule_arrays``.

    Raises
    ------
    InputError
        If a load or the pool is beyond ``weights.token_limit``, as the reference.
    """
    weight_array, options = rules
    reserved, room = _kv(arrays)
    prompts, limit = arrays.prompt_tokens, weights.token_limit
    state = (arrays.columns, arrays.start, arrays.free_slots, prompts, reserved, room)
    count, rows = balance_once(*state, weight_array, options, limit)
    if count < 0:
        loads = arrays.rows(weights.horizon).tolist()
        check_token_limit(loads, prompts.tolist(), weights)
        # The quick look at the pool was too strict: its sum is within the limit.
        count, rows = balance_once(*state, weight_array, options, INT64_MAX)
    return Decisions(*rows)


def decide_fifo(arrays: TickArrays) -> Decisions:
    """Decide one tick of the pooled FIFO."""
    _, rows = fifo_once(
        arrays.columns, arrays.start, arrays.free_slots, arrays.prompt_tokens, *_kv(arrays)
    )
    return Decisions(rows[0], rows[1])


def decide_window(arrays: TickArrays, params: WindowParams, patience: Patience) -> Decisions:
    """Decide one tick of the window router.

    Raises
    ------
    InputError
        If a load or the pool is beyond ``window_token_limit``, as the reference.
    """
    fast_oldest.check_limit(arrays, params)
    _, rows = window_once(
        arrays.columns,
        arrays.start,
        arrays.free_slots,
        arrays.prompt_tokens,
        *_kv(arrays),
        _ready(arrays),
        float(arrays.now_s),
        params.window,
        float(params.size_weight),
        params.overflow_weight,
        params.spare_order == "longest",
        float(patience.hold_s),
        float(patience.wait_weight),
        float(patience.longest_wait_s),
        float(patience.mean_prompt),
        float(params.room_share),
    )
    return Decisions(rows[0], rows[1])


def rule_arrays(
    params: BalanceRouteParams, weights: ScoreWeights, replicas: int
) -> tuple[IntArray, IntArray]:
    """The weights, and the other fields of ``kernels.Rules`` in their order."""
    uniform = min(weights.overflow) == max(weights.overflow)
    threshold = params.greedy_threshold
    options = (
        weights.reward,
        weights.overflow[0] if uniform else -1,
        replicas if threshold is None else min(threshold, INT64_MAX),
        params.max_subset,
        KEYS[params.key_order],
        ORDERS[params.candidate_order],
        int(params.stage1 == "longest"),
        weights.token_limit,
    )
    return np.array(weights.overflow, dtype=np.int64), np.array(options, dtype=np.int64)


def _kv(arrays: TickArrays) -> tuple[IntArray, IntArray]:
    if arrays.reserved_tokens is None or arrays.free_tokens is None:
        return _NOTHING, _NOTHING
    return arrays.reserved_tokens, arrays.free_tokens


def _ready(arrays: TickArrays) -> NDArray[np.float64]:
    if arrays.ready_s is None:
        return np.full(len(arrays.prompt_tokens), arrays.now_s, dtype=np.float64)
    return arrays.ready_s
