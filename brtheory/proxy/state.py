"""The books as JSON: workers, loads, what waits, what was counted."""

from typing import Any

from brtheory.core.imbalance import imbalance
from brtheory.proxy.desk import Desk
from brtheory.proxy.fleet import Worker
from brtheory.proxy.mirror import barrier_idle


def describe(desk: Desk, worker: Worker) -> dict[str, Any]:
    """A worker as JSON."""
    document: dict[str, Any] = {
        "name": worker.name,
        "role": worker.role,
        "url": worker.url,
        "rank": worker.rank,
        "up": worker.health.up,
        "reason": worker.health.reason,
        "suspect": worker.suspect,
        "draining": worker.draining,
    }
    if worker.role == "decode":
        books = desk.mirror.replicas[worker.name]
        document |= {
            "slots": books.slots,
            "requests": books.bound,
            "tokens": books.tokens,
            "decoded_tokens": books.decoded,
        }
    else:
        held = desk.prefills.nodes[worker.name]
        document |= {"legs": held.legs, "kv_tokens_held": held.held(desk.clock())}
    return document


def state_of(desk: Desk) -> dict[str, Any]:
    """Loads, imbalance, pool, counts."""
    live = desk.fleet.live("decode")
    loads = desk.mirror.loads(live)
    return {
        "router": desk.ticker.choice.name,
        "replicas": [describe(desk, worker) for worker in desk.fleet.of("decode")],
        "prefill": [describe(desk, worker) for worker in desk.fleet.of("prefill")],
        "imbalance_tokens": imbalance(loads) if loads else None,
        "barrier_idle_ratio": barrier_idle(loads),
        "queue_requests": len(desk.gate),
        "pool_requests": len(desk.pool),
        "pool_tokens": desk.pool.tokens,
        "kv_expired": desk.pool.expired,
        "kv_stranded": desk.prefills.stranded_requests,
        "forced_bindings": desk.forced,
        "ticks": desk.ticker.ticks,
        "step_s": desk.step_s,
    }
