"""Runs of tokens of one answer, and the token counts of a reply."""

from dataclasses import dataclass, field
from typing import Any

from brtheory.emulator.plan import SequencePlan

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens start .. end - 1 of one answer.

    Parameters
    ----------
    plan
        The answer.
    start, end
        0 <= start <= end <= output tokens.
    finish_reason, stop_reason
        Why the answer ends with this piece, None if it goes on.
    """

    plan: SequencePlan
    start: int
    end: int
    finish_reason: str | None = None
    stop_reason: str | int | None = None

    @property
    def tokens(self) -> int:
        """Tokens in the piece."""
        return self.end - self.start

    @property
    def text(self) -> str:
        """Shown text."""
        return self.plan.text(self.start, self.end)


@dataclass(slots=True)
class Usage:
    """Token counts of a reply.

    Parameters
    ----------
    prompt_tokens
        Of all prompts.
    cached_tokens
        Prompt tokens that were not computed by this engine.
    completion
        Tokens so far, by choice index.
    """

    prompt_tokens: int
    cached_tokens: int = 0
    completion: dict[int, int] = field(default_factory=dict)

    def count(self, piece: Piece) -> None:
        """Count a piece that is sent."""
        self.completion[piece.plan.index] = piece.end

    def of(self, plan: SequencePlan) -> Json:
        """Running usage of one choice, as in ``continuous_usage_stats``."""
        return _usage(self.prompt_tokens, self.completion.get(plan.index, 0))

    def total(self) -> Json:
        """Usage of the whole reply."""
        usage = _usage(self.prompt_tokens, sum(self.completion.values()))
        usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        return usage


def _usage(prompt_tokens: int, completion_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }
