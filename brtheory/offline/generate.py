"""Random instances, feasible by construction, for tests, examples and the gap report."""

import numpy as np

from brtheory.offline.instance import Instance, OfflineRequest


def random_instance(
    rng: np.random.Generator,
    *,
    requests: int,
    replicas: int,
    slots: int,
    longest_prompt: int = 20,
    longest_output: int = 8,
    latest_ready: int = 10,
    kv_headroom: float | None = None,
    a0: float = 1e-7,
    b0: float = 0.01,
) -> Instance:
    """Draw an instance with uniform prompts, outputs and ready steps.

    Parameters
    ----------
    rng
        Source of randomness.
    requests, replicas, slots
        n, G and B.
    longest_prompt, longest_output, latest_ready
        Inclusive upper ends of the uniform ranges.
    kv_headroom
        None for unlimited KV capacity, else capacity = headroom times the largest single
        reservation (>= 1, so every request fits an empty replica).
    """
    prompts = rng.integers(1, longest_prompt + 1, size=requests)
    outputs = rng.integers(1, longest_output + 1, size=requests)
    ready = np.sort(rng.integers(0, latest_ready + 1, size=requests))
    largest = int((prompts + outputs).max(initial=1))
    capacity = None if kv_headroom is None else int(max(1.0, kv_headroom) * largest)
    return Instance(
        replicas=replicas,
        slots=slots,
        kv_capacity=capacity,
        a0=a0,
        b0=b0,
        requests=tuple(
            OfflineRequest(i, int(k), int(s), int(o))
            for i, (k, s, o) in enumerate(zip(ready, prompts, outputs, strict=True))
        ),
    )
