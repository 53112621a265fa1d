"""What predictors have learned, kept across restarts as the observations themselves.

A bounded list of recent outcomes: the prompt's hash, its tokens, the output's tokens and whether
the output ended by itself. Replaying it into a fresh predictor restores any predictor, of any kind
and version; the file is written whole or not at all.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from brtheory.contracts import Contract, parse_contract, read_text
from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.files import write_text_atomic
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.protocol import OnlinePredictor
from brtheory.prediction.survival import SurvivalPredictor

DEFAULT_MEMORY = 4096
PREFIX_BYTES = 2048
SCHEMA = "brtheory.proxy-history/1"


class Outcome(NamedTuple):
    """How one request ended.

    Parameters
    ----------
    prefix
        ``prompt_hash`` of it, None where it has none.
    prompt_tokens, output_tokens
        Its sizes.
    finished
        Whether the output ended by itself; otherwise it would have been at least this long.
    """

    prefix: int | None
    prompt_tokens: int
    output_tokens: int
    finished: bool


class OutcomeRow(Contract):
    """One outcome in the file."""

    prefix: int | None
    prompt_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    finished: bool


class HistoryDocument(Contract):
    """The file."""

    schema_: str = Field(alias="schema")
    outcomes: list[OutcomeRow]


class OutputHistory:
    """The most recent outcomes.

    Parameters
    ----------
    memory
        Outcomes kept, >= 1.
    """

    def __init__(self, memory: int = DEFAULT_MEMORY) -> None:
        self._outcomes: deque[Outcome] = deque(maxlen=memory)
        self.unsaved = 0

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._outcomes)

    def add(self, outcome: Outcome) -> None:
        """Remember an outcome; the oldest is forgotten."""
        self._outcomes.append(outcome)
        self.unsaved += 1

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        document = {"schema": SCHEMA, "outcomes": [outcome._asdict() for outcome in self._outcomes]}
        write_text_atomic(path, json.dumps(document) + "\n")
        self.unsaved = 0

    def load(self, path: Path) -> None:
        """Read the file where there is one.

        Raises
        ------
        InputError
            With ``file:line`` if it does not fit.
        """
        if not path.exists():
            return
        document = parse_contract(read_text(path), HistoryDocument, name=str(path))
        if document.schema_ != SCHEMA:
            raise InputError(str(path), f"schema {SCHEMA}", document.schema_)
        self._outcomes.extend(Outcome(**row.model_dump()) for row in document.outcomes)

    def replay(self, predictor: OnlinePredictor, prefixes: dict[int, int]) -> None:
        """Teach a fresh predictor; ids of the past are negative.

        Parameters
        ----------
        predictor
            To be taught.
        prefixes
            Where the predictor looks prompt hashes up by request id; left as it was.
        """
        for number, outcome in enumerate(self._outcomes, start=1):
            request = Request(id=-number, prompt_tokens=max(1, outcome.prompt_tokens))
            if outcome.prefix is not None:
                prefixes[request.id] = outcome.prefix
            predictor.observe_admitted(request)
            if outcome.finished and outcome.output_tokens >= 1:
                predictor.observe_finished(request, output_tokens=outcome.output_tokens)
            else:
                predictor.observe_cancelled(request, output_tokens=outcome.output_tokens)
            prefixes.pop(request.id, None)
        if self._outcomes:
            predictor.refit(())


def make_predictor(
    name: str, prefixes: Mapping[int, int]
) -> SurvivalPredictor | ExactMatchPredictor:
    """A predictor that learns online, by name.

    Parameters
    ----------
    name
        ``survival`` or ``exact-match``.
    prefixes
        Prompt hashes by request id.

    Raises
    ------
    InputError
        If no such predictor may run in the proxy.
    """
    if name == "survival":
        return SurvivalPredictor()
    if name == "exact-match":
        return ExactMatchPredictor(lambda request: prefixes.get(request.id))
    raise InputError("router.predictor", "survival or exact-match", repr(name))


def prompt_hash(body: Mapping[str, Any]) -> int | None:
    """63-bit hash of the prompt's beginning, None where the body has no prompt."""
    prompt = body.get("messages", body.get("prompt"))
    if prompt is None:
        return None
    text = json.dumps(prompt)[:PREFIX_BYTES].encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
