"""Faults on demand, without I/O: rules, where they apply, how often, and which one is next.

A request suffers at most one fault: the first rule, in order of entry, that matches it and is not
used up. Rules with a probability draw by seed, rule and the number of requests looked at.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from brtheory.contracts import Contract, parse_contract
from brtheory.emulator.noise import unit
from brtheory.errors import InputError

FaultKind = Literal[
    "status",
    "empty",
    "slow_start",
    "reset_reused",
    "reset",
    "death",
    "truncate",
    "error_event",
    "stall",
    "recomputed",
    "odd_framing",
    "no_kv_params",
]

STREAM_FAULTS = frozenset({"death", "truncate", "error_event", "stall", "recomputed"})
"""Faults that strike after ``after_tokens`` tokens of the answer."""


class FaultRule(Contract):
    """One fault, where it applies, and how often.

    ``status`` answers with an HTTP status and ``body``; ``empty`` with 200 and nothing;
    ``slow_start`` waits ``delay_s`` before the headers; ``reset_reused`` resets a connection that
    has served a request before, ``reset`` any; ``death`` cuts the connection, ``truncate`` ends
    the stream as if complete, ``error_event`` sends an error with HTTP 200, ``stall`` goes silent
    for ``delay_s`` (for ever without one), ``recomputed`` stops with that stop reason;
    ``odd_framing`` sends CRLF, comments, ``data:`` without a space, split anywhere;
    ``no_kv_params`` leaves the KV parameters out of a prefill reply.
    """

    kind: FaultKind
    role: Literal["prefill", "decode"] | None = None
    endpoint: str | None = Field(None, description="Name such as decode-1.")
    rank: int | None = Field(None, description="Global decode rank.")
    path: str | None = Field(None, description="Default: the two completion paths.")
    times: Annotated[int, Field(ge=1)] | None = Field(1, description="Null: until cleared.")
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    after_tokens: Annotated[int, Field(ge=0)] = 0
    status: Annotated[int, Field(ge=400, le=599)] = 500
    body: str | None = Field(None, description="Default: an error object as vLLM's.")
    content_type: str = "application/json"
    retry_after: str | None = None
    delay_s: Annotated[float, Field(ge=0, le=3600)] | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """A request as rules see it.

    Parameters
    ----------
    role, endpoint
        Kind and name of the server.
    path
        URL path.
    rank
        Global rank that will serve it, None before that is known or on a prefill server.
    reused
        Whether its connection has served a request before.
    """

    role: str
    endpoint: str
    path: str
    rank: int | None = None
    reused: bool = False


@dataclass(slots=True)
class _Entry:
    number: int
    rule: FaultRule
    seen: int = 0
    hits: int = 0


COMPLETION_PATHS = frozenset({"/v1/chat/completions", "/v1/completions"})


class FaultBook:
    """Rules in order of entry.

    Parameters
    ----------
    seed
        Of the draws of rules with a probability.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._entries: list[_Entry] = []
        self._next = 0

    def add(self, rule: FaultRule) -> int:
        """Enter a rule and return its number."""
        self._entries.append(_Entry(self._next, rule))
        self._next += 1
        return self._next - 1

    def clear(self) -> None:
        """Forget all rules."""
        self._entries.clear()

    def take(self, site: Site) -> FaultRule | None:
        """The fault this request suffers, counted as a hit; None if it is spared."""
        for entry in self._entries:
            if _matches(entry.rule, site) and self._strikes(entry):
                entry.hits += 1
                return entry.rule
        return None

    def to_json(self) -> list[dict[str, object]]:
        """Rules with the number of requests they matched and hit."""
        return [
            {
                "number": entry.number,
                "seen": entry.seen,
                "hits": entry.hits,
                **entry.rule.model_dump(exclude_none=True),
            }
            for entry in self._entries
        ]

    def _strikes(self, entry: _Entry) -> bool:
        if entry.rule.times is not None and entry.hits >= entry.rule.times:
            return False
        entry.seen += 1
        return unit(self._seed, entry.number, entry.seen) < entry.rule.probability


def parse_fault(text: str, *, name: str) -> FaultRule:
    """Read a rule from JSON.

    Raises
    ------
    InputError
        If it does not fit.
    """
    return parse_contract(text, FaultRule, name=name)


def parse_fault_option(text: str) -> FaultRule:
    """Read a rule from ``KIND`` or ``KIND:key=value,...`` as on the command line.

    Raises
    ------
    InputError
        If it does not fit.
    """
    kind, _, rest = text.partition(":")
    fields: dict[str, str | None] = {"kind": kind}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError("--fault", "KIND:key=value,...", repr(text))
        fields[key.strip()] = None if value.strip() == "null" else value.strip()
    try:
        # Not strict: on the command line everything is text.
        return FaultRule.model_validate(fields, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "rule"
        raise InputError(f"--fault {name}", first["msg"], repr(text)) from error


def _matches(rule: FaultRule, site: Site) -> bool:
    paths = COMPLETION_PATHS if rule.path is None else {rule.path}
    return (
        site.path in paths
        and rule.role in {None, site.role}
        and rule.endpoint in {None, site.endpoint}
        and rule.rank in {None, site.rank}
        and (site.reused or rule.kind != "reset_reused")
    )
