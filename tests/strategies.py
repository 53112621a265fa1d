"""Hypothesis strategies for states, pools and instances, feasible by construction."""

from hypothesis import strategies as st

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.offline.instance import Instance, OfflineRequest


@st.composite
def tick_states(draw, *, horizon=0, max_replicas=5, max_pool=8, max_slots=4, kv=st.booleans()):
    """A tick state with small numbers, so that ties, full replicas and empty pools are common."""
    replicas = draw(st.integers(1, max_replicas))
    tokens = st.integers(0, 12)
    rows = st.lists(tokens, min_size=horizon + 1, max_size=horizon + 1)
    loads = draw(st.lists(rows, min_size=replicas, max_size=replicas))
    slots = draw(st.lists(st.integers(0, max_slots), min_size=replicas, max_size=replicas))
    prompts = draw(st.lists(st.integers(1, 15), max_size=max_pool))
    limited = draw(kv)
    reserved = st.integers(1, 20) if limited else st.just(0)
    pool = [Request(10 + i, s, float(i), draw(reserved)) for i, s in enumerate(prompts)]
    room = st.lists(st.integers(0, 40), min_size=replicas, max_size=replicas)
    return TickState(
        loads=loads,
        free_slots=slots,
        pool=pool,
        now_s=float(len(pool)),
        free_tokens=draw(room) if limited else None,
    )


@st.composite
def instances(draw, *, max_requests=8, max_replicas=4, max_slots=3, kv=st.booleans()):
    """A small instance; with KV capacity every request fits an empty replica."""
    requests = tuple(
        OfflineRequest(i, draw(st.integers(0, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 6)))
        for i in range(draw(st.integers(1, max_requests)))
    )
    largest = max(r.prompt_tokens + r.output_tokens for r in requests)
    return Instance(
        replicas=draw(st.integers(1, max_replicas)),
        slots=draw(st.integers(1, max_slots)),
        kv_capacity=largest + draw(st.integers(0, 10)) if draw(kv) else None,
        a0=1e-3,
        b0=0.01,
        requests=requests,
    )
