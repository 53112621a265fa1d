"""The lint of the paper finds typed digits and keys, wherever code and prose meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper.build import problems, sources
from paper.collect import collect
from paper.prose import typed_digits, used_keys
from paper.values import Values

WORDS = st.text(alphabet="abc def.,\n", max_size=30)


@given(WORDS, st.integers(0, 9999), WORDS)
def test_a_digit_in_prose_is_found_on_its_line(before: str, number: int, after: str) -> None:
    found = typed_digits(f"{before} {number} {after}")
    assert [line for line, _ in found] == [before.count("\n") + 1]


@given(WORDS, st.integers(0, 9999), WORDS)
@pytest.mark.parametrize(
    "island",
    ["${}$", "`{}`", '#num("a{}")', "#v({}pt)", "#f(width: {}%)", "// {}\n", "@fig-{}", "<t{}>"],
)
def test_digits_in_code_math_and_references_are_not_prose(
    island: str, before: str, number: int, after: str
) -> None:
    assert typed_digits(f"{before} {island.format(number)} {after}") == []


def test_prose_inside_a_call_is_prose_again() -> None:
    assert typed_digits("#figure(width: 3pt, caption: [Over 5 seeds, $G = 8$.])") == [(1, "5")]


def test_names_with_digits_are_names() -> None:
    assert typed_digits("BR-0, z3 and cvc5 agree") == []


def test_keys_are_found_with_their_line_and_not_in_comments() -> None:
    source = 'a #num("x.y")\n// #num("no")\n#statement("T1") #figure(table-of("t", size: 6pt))'
    found = [(used.call, used.key, used.line) for used in used_keys(source)]
    assert found == [("num", "x.y", 1), ("statement", "T1", 3), ("table-of", "t", 3)]


def test_a_missing_key_an_unused_value_and_a_digit_each_stop_the_build() -> None:
    values = Values(texts={"known": "1", "idle": "2"})
    found = problems({"a.typ": '#num("known")\n#num("gone") and 7'}, values)
    assert found == [
        'a.typ:2: no result file gives num("gone")',
        "a.typ:2: a digit typed in prose: 7",
        'unused: num("idle")',
    ]


def test_the_paper_itself_is_clean() -> None:
    assert problems(sources(), collect()) == []
