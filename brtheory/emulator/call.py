"""A checked request to a completion endpoint, and the error object that refuses one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brtheory.emulator.tokens import token_ids
from brtheory.errors import BrtheoryError


class ApiError(BrtheoryError):
    """A request answered with an error object.

    Parameters
    ----------
    status
        HTTP status.
    message
        What is wrong.
    kind
        ``type`` of the error object.
    param
        The field at fault, None if there is no one field.
    """

    def __init__(
        self, status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    def to_json(self) -> dict[str, object]:
        """The error object."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.status,
            }
        }


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, tokenized.

    Parameters
    ----------
    tokens
        s_i >= 1.
    key
        Hash of its beginning: decides the words of the answer.
    whole
        Hash of all of it: decides the hidden output length, and prefix cache hits.
    text
        Its text, None where it came as token ids.
    ids
        Its token ids, None where it came as text.
    """

    tokens: int
    key: int
    whole: int
    text: str | None = None
    ids: tuple[int, ...] | None = None

    def token_ids(self) -> list[int]:
        """Token ids, of as much of the prompt as its text covers."""
        return list(self.ids) if self.ids is not None else token_ids(self.text or "")


@dataclass(frozen=True, slots=True)
class Call:
    """A checked request.

    Parameters
    ----------
    chat
        Whether it came to /v1/chat/completions.
    prompts
        One, or a batch.
    n
        Choices for each prompt.
    max_tokens
        Limit of each prompt's answers, one per prompt.
    min_tokens, ignore_eos, stop, stop_token_ids
        When an answer may end.
    forced_output
        Output tokens the caller asks the emulator for, None for the hidden law.
    stream, include_usage, continuous_usage, return_token_ids, logprobs
        What the answer shows; ``logprobs`` is the number of alternatives, None for no entries.
    tool
        Name of the function the answer calls, None for a text.
    kv
        ``kv_transfer_params`` as given, empty without.
    """

    chat: bool
    prompts: tuple[Prompt, ...]
    n: int
    max_tokens: tuple[int, ...]
    min_tokens: int
    ignore_eos: bool
    stop: tuple[str, ...]
    include_stop: bool
    stop_token_ids: frozenset[int]
    forced_output: int | None
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    logprobs: int | None
    tool: str | None
    kv: Mapping[str, Any]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens in all."""
        return sum(prompt.tokens for prompt in self.prompts)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine serves: its model's name and the longest sequence in tokens."""

    model: str
    max_model_len: int
