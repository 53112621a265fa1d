"""Laws of cutting members out of JSON bytes: equal to deleting them from the parsed document."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from brtheory.proxy.json_bytes import (
    ANY,
    cut_members,
    member_value,
    replace_member,
    usage_at_end,
)

KEYS = st.sampled_from(["usage", "choices", "token_ids", "a", 'quo"te', "brace}", "back\\"])
TEXTS = st.sampled_from(['"usage":{"x":1}}', ',"usage":{', "}", "\\", '\\"', "é😀", "plain"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=16,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=5)
SPACING = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])


def dump(document: Any, spacing: tuple[str, str]) -> bytes:
    return json.dumps(document, separators=spacing).encode()


@settings(deadline=None)
@given(document=DOCUMENTS, spacing=SPACING)
@example(document={"usage": 1, "token_ids": 2}, spacing=(",", ":"))
def test_cutting_equals_deleting(document: dict[str, Any], spacing: tuple[str, str]) -> None:
    text = dump(document, spacing)
    without = {key: value for key, value in document.items() if key != "usage"}
    assert json.loads(cut_members(text, ("usage",))) == without


@settings(deadline=None)
@given(choices=st.lists(DOCUMENTS, max_size=3), spacing=SPACING)
def test_members_of_array_elements_are_cut_from_each(
    choices: list[dict[str, Any]], spacing: tuple[str, str]
) -> None:
    text = dump({"token_ids": 1, "choices": choices}, spacing)
    expected = [{k: v for k, v in choice.items() if k != "token_ids"} for choice in choices]
    left = json.loads(cut_members(text, ("choices", ANY, "token_ids")))
    assert left == {"token_ids": 1, "choices": expected}


@settings(deadline=None)
@given(document=DOCUMENTS, spacing=SPACING)
def test_what_is_not_cut_keeps_its_bytes(
    document: dict[str, Any], spacing: tuple[str, str]
) -> None:
    text = dump({**document, "last": "\\u00e9 1e5"}, spacing)
    assert text == cut_members(text, ("absent",))
    inner = dump(document, spacing)[1:-1]
    if document and "new" not in document:
        wrapped = b'{"new":7,' + inner + b"}"
        assert cut_members(wrapped, ("new",)) == b"{" + inner.lstrip() + b"}"


@settings(deadline=None)
@given(document=DOCUMENTS, spacing=SPACING)
def test_values_are_found_and_replaced(document: dict[str, Any], spacing: tuple[str, str]) -> None:
    text = dump(document, spacing)
    found = member_value(text, ("usage",))
    if "usage" not in document:
        assert found is None
        assert replace_member(text, ("usage",), value=b"9") == text
    else:
        assert found is not None
        assert json.loads(found) == document["usage"]
        replaced = json.loads(replace_member(text, ("usage",), value=b"9"))
        assert replaced == {**document, "usage": 9}


@settings(deadline=None)
@given(document=DOCUMENTS, spacing=SPACING)
def test_the_fast_path_answers_only_what_the_scanner_answers(
    document: dict[str, Any], spacing: tuple[str, str]
) -> None:
    text = dump(document, spacing)
    usage = usage_at_end(text)
    if usage is not None:
        assert json.loads(usage.value) == document["usage"]
        assert json.loads(usage.rest) == {k: v for k, v in document.items() if k != "usage"}


@settings(deadline=None)
@given(document=DOCUMENTS, spacing=SPACING, tokens=st.integers(0, 9))
def test_the_fast_path_takes_a_flat_usage_at_the_end(
    document: dict[str, Any], spacing: tuple[str, str], tokens: int
) -> None:
    document.pop("usage", None)
    text = dump({"id": 1, **document, "usage": {"completion_tokens": tokens}}, spacing)
    usage = usage_at_end(text)
    assert usage is not None
    assert json.loads(usage.value) == {"completion_tokens": tokens}
    assert json.loads(usage.rest) == {"id": 1, **document}


@settings(deadline=None)
@given(text=st.binary(max_size=40) | TEXTS.map(str.encode))
def test_text_that_is_no_json_breaks_nothing(text: bytes) -> None:
    usage_at_end(text)
    try:
        cut_members(text, ("usage",))
    except ValueError:
        return
