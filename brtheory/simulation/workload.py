"""What a simulation runs: requests with their true lengths, the cluster, the step-time model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.core.unequal import Paces, Replica, paces_of, slots_of
from brtheory.errors import InfeasibleError, InputError

DEFAULT_A0 = 1.5e-7
"""Seconds per token of the peak load: vllm-ascend's planner, 0.15 us/token."""
DEFAULT_B0 = 0.020
"""Seconds per step: vllm-ascend's planner, 20 ms."""
SHORTEST_S, LONGEST_S = 1e-15, 1e9
"""Range of a0 and b0 that are not 0: times, rates and their sums stay finite."""
LARGEST_SHAPE = {"replicas": 2**20, "slots": 2**20, "kv_capacity": 2**62}


@dataclass(frozen=True, slots=True)
class StepTime:
    """tau(k) = b0 + a0*M(k) seconds.

    Parameters
    ----------
    a0
        Seconds per KV token of the peak load, 0 or SHORTEST_S .. LONGEST_S.
    b0
        Seconds per step, 0 or SHORTEST_S .. LONGEST_S; not both 0.
    """

    a0: float = DEFAULT_A0
    b0: float = DEFAULT_B0

    def __post_init__(self) -> None:
        for name in ("a0", "b0"):
            value = getattr(self, name)
            if value != 0 and not SHORTEST_S <= value <= LONGEST_S:
                raise InputError(name, f"0 or {SHORTEST_S:g} to {LONGEST_S:g} seconds", value)
        if self.a0 == self.b0 == 0:
            raise InputError("step time", "a0 and b0 not both 0", "both 0")


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """G replicas of ``slots`` places and, optionally, a KV capacity in tokens.

    Where they differ, ``unequal`` has slots and speed of each, and ``slots`` is the most of any.
    """

    replicas: int
    slots: int
    kv_capacity: int | None = None
    unequal: tuple[Replica, ...] | None = None

    def __post_init__(self) -> None:
        for name, largest in LARGEST_SHAPE.items():
            value = getattr(self, name)
            if value is not None and not 1 <= value <= largest:
                raise InputError(name, f"an integer from 1 to {largest}", value)
        slots_of(self.unequal, count=self.replicas, slots=self.slots)

    @property
    def replica_slots(self) -> tuple[int, ...]:
        """Slots of each replica."""
        return slots_of(self.unequal, count=self.replicas, slots=self.slots)

    @property
    def total_slots(self) -> int:
        """Slots of all replicas together: G*slots where they do not differ."""
        return sum(self.replica_slots)

    def paces(self, step_time: StepTime) -> Paces | None:
        """Units of time a step and a token take on each replica, None where all are alike.

        Raises
        ------
        InputError
            If a_g and b_g of a replica are both 0.
        """
        if self.unequal is None:
            return None
        return paces_of(self.unequal, a0=step_time.a0, b0=step_time.b0)


def unequal_shape(replicas: Sequence[Replica], *, kv_capacity: int | None = None) -> ClusterShape:
    """The shape of a cluster of replicas that may differ."""
    most = max((replica.slots for replica in replicas), default=0)
    return ClusterShape(len(replicas), most, kv_capacity, tuple(replicas))


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt and true output tokens of n requests, both shape (n,), int64, >= 1."""

    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def largest_load(self, shape: ClusterShape) -> int:
        """Upper bound of a replica's load, FIFO included: all prompts, full slots grown full."""
        prompts: int = sum(self.prompt_tokens.tolist())
        return prompts + min(shape.slots, len(self)) * int(self.output_tokens.max(initial=1))

    def check_fits(self, shape: ClusterShape, *, ids: Sequence[int] | None = None) -> None:
        """Refuse requests that no empty replica could take.

        The engine reserves prompt + output tokens at admission.

        Parameters
        ----------
        shape
            The limit.
        ids
            What requests are called, None for their positions.

        Raises
        ------
        InfeasibleError
            Naming the first such request and the limit.
        """
        if shape.kv_capacity is None:
            return
        reserved = self.prompt_tokens + self.output_tokens
        too_large = np.flatnonzero(reserved > shape.kv_capacity)
        if len(too_large):
            i = int(too_large[0])
            name = i if ids is None else ids[i]
            raise InfeasibleError(
                f"request {name} reserves {reserved[i]} KV tokens, "
                f"kv_capacity is {shape.kv_capacity}"
            )
