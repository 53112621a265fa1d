"""How many tokens a stream has produced: a chunk is not a token.

Sources, best first: cumulative usage in every chunk, lengths of token ids, log probability entries
the client asked for, and chunks times a learned ratio (degraded). The final usage settles the
count whatever the source.
"""

from enum import Enum
from typing import Any

from brtheory.proxy.chunk import Chunk, ChunkKind

RATIO_MEMORY = 0.1
LARGEST_RATIO = 64.0


class TokenSource(Enum):
    """Where a count comes from, best first."""

    USAGE = "usage"
    TOKEN_IDS = "token_ids"  # noqa: S105  # the name of a field
    LOGPROBS = "logprobs"
    CHUNKS = "chunks"

    @property
    def degraded(self) -> bool:
        """Whether the count is an estimate."""
        return self is TokenSource.CHUNKS


class ChunkRatio:
    """Tokens per chunk, learned from streams whose final usage told both.

    Parameters
    ----------
    initial
        The ratio before anything is known, >= 0.
    """

    def __init__(self, initial: float = 1.0) -> None:
        self.value = initial

    def learn(self, *, tokens: int, chunks: int) -> None:
        """Take in a finished stream; streams without chunks teach nothing."""
        if chunks > 0:
            seen = min(tokens / chunks, LARGEST_RATIO)
            self.value += RATIO_MEMORY * (seen - self.value)


class TokenCounter:
    """Counts one stream.

    Parameters
    ----------
    ratio
        Shared by the streams of a deployment.
    choices
        Sequences in the stream.
    logprobs
        Whether the client asked for log probabilities.

    Attributes
    ----------
    tokens
        Completion tokens so far, over all choices.
    source
        Where the count comes from, None before the first chunk with a token.
    settled
        Whether the final usage has been seen.
    corrected
        Tokens by which it changed the count.
    """

    def __init__(self, ratio: ChunkRatio, *, choices: int = 1, logprobs: bool = False) -> None:
        self._ratio = ratio
        self._many = choices > 1
        self._logprobs = logprobs
        self._by_choice: dict[int, int] = {}
        self._chunks = 0
        self._estimate = 0.0
        self.tokens = 0
        self.source: TokenSource | None = None
        self.settled = False
        self.corrected = 0

    def observe(self, chunk: Chunk) -> int:
        """Take a chunk in and return by how much the count has changed.

        Only the final usage can lower the count, and only an estimated one.
        """
        before = self.tokens
        if chunk.kind is ChunkKind.USAGE:
            self._settle(chunk.completion_tokens)
        elif chunk.kind is ChunkKind.CHOICES:
            cumulative = chunk.completion_tokens
            if cumulative is not None:
                self._cumulative(chunk, cumulative)
            elif self.source is not TokenSource.USAGE:
                self._increment(chunk)
        return self.tokens - before

    def observe_total(self, count: int) -> int:
        """Take a cumulative count of a stream of one choice in, as ``observe`` would."""
        self.source = TokenSource.USAGE
        if count:
            self._chunks += 1
        grown = count - self.tokens
        if grown <= 0:
            return 0
        self.tokens = count
        return grown

    def _cumulative(self, chunk: Chunk, count: int) -> None:
        """Cumulative per choice, merged monotonically: a late small value changes nothing."""
        if not self._many:
            self.observe_total(count)
            return
        self.source = TokenSource.USAGE
        self._chunks += bool(count)
        for choice in chunk.choices():
            index = choice.get("index")
            if isinstance(index, int):
                self._by_choice[index] = max(self._by_choice.get(index, 0), count)
        self.tokens = max(self.tokens, sum(self._by_choice.values()))

    def _increment(self, chunk: Chunk) -> None:
        choices = chunk.choices()
        found, source = _best_increment(choices, logprobs=self._logprobs)
        if source is None:
            carrying = sum(_carries_text(choice) for choice in choices)
            self._estimate += carrying * self._ratio.value
            self._chunks += carrying
            if carrying and self.source is None:
                self.source = TokenSource.CHUNKS
            self.tokens = max(self.tokens, round(self._estimate))
        else:
            self.source = source
            self._chunks += bool(found)
            self.tokens += found

    def _settle(self, total: int | None) -> None:
        if total is None:
            return
        if self._chunks:
            self._ratio.learn(tokens=total, chunks=self._chunks)
        self.corrected = abs(total - self.tokens)
        self.tokens = total
        self.settled = True


def _best_increment(
    choices: list[dict[str, Any]], *, logprobs: bool
) -> tuple[int, TokenSource | None]:
    ids = [choice["token_ids"] for choice in choices if isinstance(choice.get("token_ids"), list)]
    if ids:
        return sum(len(part) for part in ids), TokenSource.TOKEN_IDS
    entries = [_logprob_entries(choice.get("logprobs")) for choice in choices] if logprobs else []
    known = [count for count in entries if count is not None]
    return (sum(known), TokenSource.LOGPROBS) if known else (0, None)


def _logprob_entries(logprobs: Any) -> int | None:
    """Entries of a chat choice (``content``) or of a completion choice (``tokens``)."""
    if not isinstance(logprobs, dict):
        return None
    for key in ("content", "tokens"):
        if isinstance(logprobs.get(key), list):
            return len(logprobs[key])
    return None


def _carries_text(choice: dict[str, Any]) -> bool:
    """Whether a choice holds generated text: role, finish and empty deltas do not."""
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(value for key, value in delta.items() if key != "role")
    return bool(choice.get("text"))
