"""A whole response put together from a stream, for clients that did not ask for one.

Deltas merge by one rule that unknown fields follow too: texts join, lists extend (elements with an
``index`` merge with their like), objects merge member by member, names and labels are set once.
"""

import json
from typing import Any

from brtheory.proxy.openai import TRANSFER_FIELDS, Endpoint

_LABELS = frozenset(
    {"role", "id", "type", "name", "index", "object", "finish_reason", "stop_reason", "model"}
)
_INSTEAD_OF_TEXT = ("tool_calls", "reasoning", "reasoning_content")
"""Where a message has one of these and no text, engines say null; streams bring an empty text."""


class Assembler:
    """Collects the chunks of one stream.

    Parameters
    ----------
    endpoint
        Whose response shape to build.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._chat = endpoint is Endpoint.CHAT
        self._top: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._usage: Any = None

    def add(self, chunk: dict[str, Any]) -> None:
        """Take a decoded chunk in."""
        for key, value in chunk.items():
            if key == "choices":
                for choice in value if isinstance(value, list) else []:
                    self._add_choice(choice)
            elif key == "usage":
                self._usage = value if value is not None else self._usage
            elif value is not None and key not in TRANSFER_FIELDS:
                self._top[key] = value

    def response(self, *, prompt_details: Any = None, token_ids: bool = True) -> dict[str, Any]:
        """The response object.

        Parameters
        ----------
        prompt_details
            Replaces ``usage.prompt_tokens_details`` where that is reported.
        token_ids
            Whether the client asked for token ids.
        """
        top = {"id": None, **self._top}
        if self._chat:
            top["object"] = "chat.completion"
        top["choices"] = [self._finished(self._choices[i]) for i in sorted(self._choices)]
        top["usage"] = _with_details(self._usage, prompt_details)
        if not token_ids:
            top.pop("prompt_token_ids", None)
            for choice in top["choices"]:
                choice.pop("token_ids", None)
                choice.pop("prompt_token_ids", None)
        return top

    def body(self, *, prompt_details: Any = None, token_ids: bool = True) -> bytes:
        """The response as JSON."""
        return json.dumps(
            self.response(prompt_details=prompt_details, token_ids=token_ids),
            separators=(",", ":"),
        ).encode()

    def _add_choice(self, choice: Any) -> None:
        if not isinstance(choice, dict):
            return
        index = choice.get("index", 0)
        mine = self._choices.setdefault(index if isinstance(index, int) else 0, {"index": index})
        _merge(mine, choice)

    def _finished(self, choice: dict[str, Any]) -> dict[str, Any]:
        finished = {"finish_reason": None, "logprobs": None, **choice}
        if not self._chat:
            finished.setdefault("text", "")
            return finished
        message = {"role": "assistant", "content": None, **finished.pop("delta", {})}
        for call in message.get("tool_calls") or []:
            call.pop("index", None)
        if not message["content"] and any(message.get(other) for other in _INSTEAD_OF_TEXT):
            message["content"] = None
        finished["message"] = message
        return finished


def _with_details(usage: Any, prompt_details: Any) -> Any:
    """The usage with the prefill node's account of cached tokens, where one is reported at all."""
    if not isinstance(usage, dict) or prompt_details is None:
        return usage
    if usage.get("prompt_tokens_details") is None:
        return usage
    return {**usage, "prompt_tokens_details": prompt_details}


def _merge(into: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        present = into.get(key)
        if present is None:
            into[key] = _own(value) if value is not None or key not in into else present
        elif isinstance(value, dict) and isinstance(present, dict):
            _merge(present, value)
        elif isinstance(value, list) and isinstance(present, list):
            _extend(present, value)
        elif isinstance(value, str) and isinstance(present, str) and key not in _LABELS:
            into[key] = present + value
        elif value is not None and key not in ("role", "id", "index", "name"):
            into[key] = value


def _extend(into: list[Any], part: list[Any]) -> None:
    for element in part:
        twin = _twin(into, element)
        if twin is None:
            into.append(_own(element))
        else:
            _merge(twin, element)


def _twin(among: list[Any], element: Any) -> dict[str, Any] | None:
    """The element with the same ``index``, if elements have one."""
    if not isinstance(element, dict) or not isinstance(element.get("index"), int):
        return None
    for candidate in among:
        if isinstance(candidate, dict) and candidate.get("index") == element["index"]:
            return candidate
    return None


def _own(value: Any) -> Any:
    """A copy of the containers, so that merging never changes a chunk."""
    if isinstance(value, dict):
        return {key: _own(inner) for key, inner in value.items()}
    if isinstance(value, list):
        copied: list[Any] = []
        _extend(copied, value)
        return copied
    return value
