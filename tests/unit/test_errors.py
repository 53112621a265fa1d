"""Errors say what came, and survive the way from a worker process."""

import pickle

import pytest

from brtheory.errors import InfeasibleError, InputError, MissingExtraError


@pytest.mark.parametrize(
    "error",
    [
        InputError("a.csv:7", "output tokens >= 1", -4),
        MissingExtraError("method 'cpsat'", "solvers"),
        InfeasibleError("request 3 reserves 14 KV tokens, kv_capacity is 13"),
    ],
)
def test_errors_pickle_with_their_message(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_message_never_ends_where_what_came_should_stand():
    for got in ("", "x", 0, None, "y" * 1000):
        assert str(InputError("--param", "K=V", got)).partition(", got ")[2]
