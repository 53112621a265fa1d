"""The truth, as a JSON document: what the decode group really carries and what KV is pinned."""

from brtheory.core.imbalance import peak
from brtheory.emulator.deployment import Deployment

SCHEMA = "brtheory.emulator-truth/1"


def truth_document(deployment: Deployment, *, with_requests: bool = False) -> dict[str, object]:
    """State of all engines now.

    Loads are exact KV tokens: a request weighs its prompt plus the tokens it has emitted. With
    ``with_requests`` every sequence on a decode rank is listed too; its age is None while it waits.
    """
    group = deployment.decode.group
    totals = group.totals
    whole = group.shape.replicas * totals.sum_peak
    document: dict[str, object] = {
        "schema": SCHEMA,
        "time_s": deployment.clock.now(),
        "loads": list(group.loads),
        "active": list(group.active),
        "waiting": list(group.waiting),
        "peak": peak(group.loads),
        "imbalance": group.imbalance,
        "steps": totals.steps,
        "sum_peak": totals.sum_peak,
        "sum_load": totals.sum_load,
        "imbalance_total": group.imbalance_total,
        "barrier_idle_fraction": group.imbalance_total / whole if whole else None,
        "decoded_tokens": totals.decoded_tokens,
        "submitted": totals.submitted,
        "completed": totals.completed,
        "cancelled": totals.cancelled,
        "refused": totals.refused,
        "lost_s": deployment.decode.driver.lost_s,
        "kv": dict(deployment.decode.kv_counts),
        "leases": dict(deployment.ledger.counts),
        "prefill": [_prefill(deployment, name) for name in deployment.prefill],
    }
    if with_requests:
        document["requests"] = _requests(deployment)
    return document


def _prefill(deployment: Deployment, name: str) -> dict[str, object]:
    engine = deployment.prefill[name]
    requests, tokens = engine.pinned
    return {
        "name": name,
        "engine_id": engine.producer.engine_id,
        "pinned_requests": requests,
        "pinned_tokens": tokens,
        "running": engine.running,
        "waiting": engine.waiting,
        "prompt_tokens": engine.prompt_tokens,
    }


def _requests(deployment: Deployment) -> list[dict[str, object]]:
    return [
        {
            "request_id": request_id,
            "index": plan.index,
            "rank": rank,
            "prompt_tokens": plan.prompt.tokens,
            "output_tokens": plan.output_tokens,
            "age": deployment.decode.group.age(sequence),
        }
        for sequence, (request_id, plan, rank) in deployment.decode.running.items()
    ]
