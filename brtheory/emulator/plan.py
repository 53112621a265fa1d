"""What a sequence will say, decided before it starts: its true length, its words, why it ends.

The hidden output law is geometric with the configured mean, drawn by seed, whole prompt and choice:
P(o > k) = (1 - 1/mean)^k. Word j of an answer depends on the seed, the prompt's first 16 bytes, the
choice and the absolute position s + j, so that a request prefilled again with its text so far goes
on as if nothing had happened.
"""

import math
from dataclasses import dataclass

from brtheory.emulator.call import Call, Prompt
from brtheory.emulator.noise import mix, unit
from brtheory.emulator.tokens import BYTES_PER_TOKEN, WORDS

LENGTH_STREAM, WORD_STREAM, LOGPROB_STREAM = range(3)
"""Independent streams of one seed."""


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """One answer.

    Parameters
    ----------
    index
        Its choice index in the reply.
    prompt
        What it answers.
    output_tokens
        o_i >= 1.
    finish_reason
        ``stop`` or ``length``.
    stop_reason
        The stop string or stop token id that ended it, None otherwise.
    visible_bytes
        Bytes of its text that are shown, None for all: a stop string is not.
    seed, voice
        What its words are drawn by.
    """

    index: int
    prompt: Prompt
    output_tokens: int
    finish_reason: str
    stop_reason: str | int | None
    visible_bytes: int | None
    seed: int
    voice: int

    def token_ids(self, start: int, end: int) -> list[int]:
        """Ids of tokens start .. end - 1."""
        return _words(self.prompt, start, end, seed=self.seed, voice=self.voice)

    def text(self, start: int, end: int) -> str:
        """Shown text of tokens start .. end - 1."""
        text = "".join(WORDS[i] for i in self.token_ids(start, end))
        if self.visible_bytes is None:
            return text
        room = max(0, self.visible_bytes - BYTES_PER_TOKEN * start)
        return text.encode()[:room].decode()

    def logprob(self, token_id: int, position: int) -> float:
        """A log probability <= 0 for a token, or for an alternative to it."""
        draw = unit(self.seed, LOGPROB_STREAM, self.voice, position, token_id)
        return round(-3.0 * draw, 4)


def plan_sequences(call: Call, *, seed: int, mean_output: float) -> tuple[SequencePlan, ...]:
    """Plan every choice of every prompt, in the order of their indices."""
    return tuple(
        _plan(call, prompt, choice, number * call.n + choice, seed=seed, mean_output=mean_output)
        for number, prompt in enumerate(call.prompts)
        for choice in range(call.n)
    )


def hidden_length(prompt: Prompt, choice: int, *, seed: int, mean_output: float) -> int:
    """Output tokens at which the answer would end by itself, >= 1."""
    if mean_output <= 1:
        return 1
    draw = unit(seed, LENGTH_STREAM, prompt.whole, choice)
    return 1 + int(math.log1p(-draw) / math.log1p(-1 / mean_output))


def _plan(
    call: Call, prompt: Prompt, choice: int, index: int, *, seed: int, mean_output: float
) -> SequencePlan:
    limit = call.max_tokens[index // call.n]
    voice = mix(prompt.key, choice)
    natural = _natural(call, prompt, choice, seed=seed, mean_output=mean_output)
    tokens = min(limit, limit if natural is None else natural)
    reason = "length" if natural is None or natural > limit else "stop"
    stop = _first_stop(call, prompt, tokens, seed=seed, voice=voice)
    if stop is None:
        return SequencePlan(index, prompt, tokens, reason, None, None, seed, voice)
    return SequencePlan(index, prompt, stop.tokens, "stop", stop.reason, stop.visible, seed, voice)


def _natural(
    call: Call, prompt: Prompt, choice: int, *, seed: int, mean_output: float
) -> int | None:
    """Where the answer ends by itself: behind ``min_tokens``; None with ``ignore_eos``."""
    if call.ignore_eos:
        return None
    drawn = call.forced_output
    if drawn is None:
        drawn = hidden_length(prompt, choice, seed=seed, mean_output=mean_output)
    return max(drawn, call.min_tokens + 1) if call.min_tokens else drawn


@dataclass(frozen=True, slots=True)
class _Stop:
    tokens: int
    order: int
    reason: str | int
    visible: int | None


def _first_stop(call: Call, prompt: Prompt, tokens: int, *, seed: int, voice: int) -> _Stop | None:
    """The stop string or token that comes first within the answer, None if none does."""
    if not call.stop and not call.stop_token_ids:
        return None
    ids = _words(prompt, 0, tokens, seed=seed, voice=voice)
    text = "".join(WORDS[i] for i in ids).encode()
    found = [
        stop
        for order, given in enumerate(call.stop)
        if (stop := _string_stop(call, text, given, order=order)) is not None
    ]
    for position, token_id in enumerate(ids):
        if position >= call.min_tokens and token_id in call.stop_token_ids:
            found.append(_Stop(position + 1, -1, token_id, None))
            break
    return min(found, key=lambda stop: (stop.tokens, stop.order), default=None)


def _string_stop(call: Call, text: bytes, given: str, *, order: int) -> _Stop | None:
    wanted = given.encode()
    start = text.find(wanted, max(0, BYTES_PER_TOKEN * call.min_tokens + 1 - len(wanted)))
    if start < 0:
        return None
    end = start + len(wanted)
    visible = end if call.include_stop else start
    return _Stop(-(-end // BYTES_PER_TOKEN), order, given, visible)


def _words(prompt: Prompt, start: int, end: int, *, seed: int, voice: int) -> list[int]:
    first = prompt.tokens
    return [
        mix(seed, WORD_STREAM, voice, first + position) % len(WORDS)
        for position in range(start, end)
    ]
