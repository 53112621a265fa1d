"""Strict JSON reading: the right line for every kind of fault, and schemas equal to the code."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.cli.schema import CONTRACTS, schema_text
from brtheory.contracts import line_of, parse_contract
from brtheory.errors import InputError
from brtheory.offline.instance import InstanceDocument, read_instance

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
GOOD = {
    "schema": "brtheory.instance/1",
    "replicas": 2,
    "slots": 4,
    "kv_capacity": None,
    "a0": 1e-7,
    "b0": 0.01,
    "requests": [
        {"id": 0, "ready": 0, "prompt_tokens": 12, "output_tokens": 5},
        {"id": 1, "ready": 2, "prompt_tokens": 3, "output_tokens": 1},
    ],
}


def with_change(path, value):
    document = json.loads(json.dumps(GOOD))
    *parents, last = path
    target = document
    for part in parents:
        target = target[part]
    target[last] = value
    return json.dumps(document, indent=1)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["replicas"], 0),
        (["replicas"], 2.0),
        (["replicas"], True),
        (["replicas"], "2"),
        (["schema"], "brtheory.instance/2"),
        (["a0"], -1),
        (["kv_capacity"], 0),
        (["requests", 1, "prompt_tokens"], 0),
        (["requests", 1, "output_tokens"], 2**41),
        (["requests", 1, "colour"], "red"),
        (["requests", 0], []),
    ],
)
def test_a_field_that_does_not_fit_is_located(path, value):
    text = with_change(path, value)
    with pytest.raises(InputError) as caught:
        parse_contract(text, InstanceDocument, name="i.json")
    line = int(caught.value.where.split(":")[1])
    named = path[-1] if isinstance(path[-1], str) else "["
    assert named in text.splitlines()[line - 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "i.json:1: expected JSON"),
        ('{"a":\n1,}', "i.json:2: expected JSON"),
        ('{"a": 1,\n"a": 2}', 'expected keys used once, got "a"'),
        ('{"a":\nNaN}', "i.json:2: expected finite numbers, got NaN"),
        ("[" * 100_000, "nested less deeply"),
        ('{"a": ' + "9" * 5000 + "}", "sane length"),
        ("[]", "i.json:1"),
    ],
)
def test_text_that_is_no_document_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        parse_contract(text, InstanceDocument, name="i.json")
    assert message in str(caught.value)


def test_a_missing_field_is_named():
    text = json.dumps({key: value for key, value in GOOD.items() if key != "slots"})
    with pytest.raises(InputError, match="field slots, got nothing"):
        parse_contract(text, InstanceDocument, name="i.json")


def test_what_the_reader_refuses_beyond_the_schema_has_a_line(tmp_path):
    path = tmp_path / "i.json"
    path.write_text(with_change(["requests", 1, "id"], 0))
    with pytest.raises(InputError, match=r"i.json:\d+: requests\[1\].id: expected ids used once"):
        read_instance(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "i.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="UTF-8"):
        read_instance(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON, st.data())
def test_the_line_of_every_value_is_the_line_it_starts_on(document, data):
    """Against a marker that replaces the value."""
    path, target = [], document
    while isinstance(target, dict | list) and target and data.draw(st.booleans()):
        key = data.draw(
            st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target)))
        )
        path.append(key)
        parent, target = target, target[key]
    if path:
        parent[path[-1]] = "marker-of-the-value"
    else:
        document = "marker-of-the-value"
    text = json.dumps(document, indent=2)
    expected = text[: text.index('"marker-of-the-value"')].count("\n") + 1
    assert line_of(text, path) == expected


@pytest.mark.parametrize("name", CONTRACTS)
def test_published_schemas_are_those_of_the_code(name):
    """Regenerate with `brtheory schema --out docs/schemas`."""
    assert (SCHEMAS / f"{name}.schema.json").read_text() == schema_text(name)
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text(name)))


def test_the_published_schema_accepts_what_the_reader_accepts():
    jsonschema.validate(GOOD, json.loads(schema_text("instance")))
    parse_contract(json.dumps(GOOD), InstanceDocument, name="i.json")
