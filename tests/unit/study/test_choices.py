"""Router texts: parsing, the automatic horizon, the baseline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.errors import InputError
from brtheory.routers.params import LONGEST_HORIZON
from brtheory.study.choices import default_routers, near_horizon, resolve_choices


def labels(*texts, mean=211.1, slots=32):
    return [c.label for c in resolve_choices(texts, mean_output_tokens=mean, slots=slots)]


def test_default_study_shows_two_horizons():
    # Azure 2023 conversation: 211.1 / 32 = 6.6 steps between completions.
    chosen = labels(*default_routers())
    assert {"brh:horizon=80", "brh:horizon=7", "br0", "jsq", "random"} <= set(chosen)


def test_jsq_is_added_once():
    assert labels("br0") == ["jsq", "br0"]
    assert labels("br0", "jsq", "br0") == ["br0", "jsq"]


def test_equal_horizons_are_one_router():
    assert labels("jsq", "brh:horizon=7", "brh:horizon=auto") == ["jsq", "brh:horizon=7"]


def test_titles_name_what_differs():
    choices = resolve_choices(["brh:horizon=auto:discount=0.5"], mean_output_tokens=64, slots=32)
    assert choices[1].title == "BR-H (oracle, H = 2, discount = 0.5)"
    assert choices[1].automatic
    assert choices[1].params.discount == 0.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jqs", "expected one of random"),
        ("br0:max_subset", "NAME:KEY=VALUE"),
        ("br0:max_subset=99", "less than or equal to 12"),
        ("jsq:horizon=3", "a parameter of this router (it has none), got horizon"),
        ("brh:horizon=soon", "valid integer"),
        ("", "one of random"),
    ],
)
def test_bad_texts_are_refused_by_name(text, expected):
    with pytest.raises(InputError, match="expected") as caught:
        labels(text)
    assert expected in str(caught.value)


@given(st.floats(1, 1e6), st.integers(1, 4096))
def test_near_horizon_is_the_nearest_whole_number_of_steps(mean, slots):
    horizon = near_horizon(mean, slots=slots)
    assert 1 <= horizon <= LONGEST_HORIZON
    assert horizon in (1, LONGEST_HORIZON) or abs(horizon - mean / slots) <= 0.5


def test_a_parameter_given_twice_is_refused():
    with pytest.raises(InputError, match="horizon twice"):
        labels("brh:horizon=7:horizon=8")


def test_automatic_horizons_stay_within_what_a_router_can_look():
    # 100,000 tokens through one slot: 100,000 steps between completions.
    choices = resolve_choices(["brh:horizon=auto"], mean_output_tokens=100_000.0, slots=1)
    assert choices[-1].params.horizon == LONGEST_HORIZON
