"""A request as a router may see it: everything except its output length."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """One request waiting for a replica.

    Parameters
    ----------
    id
        Unique within a run.
    prompt_tokens
        s_i >= 1: KV tokens it weighs when admitted (age 0).
    ready_s
        Time in seconds at which it became ready; its wait is ``now_s - ready_s``.
    reserved_tokens
        KV tokens the engine reserves at admission (prompt plus its length limit), 0 where no
        KV capacity is modelled.
    """

    id: int
    prompt_tokens: int
    ready_s: float = 0.0
    reserved_tokens: int = 0
