"""Fault rules: where they strike, how often, and how they are written."""

import pytest

from brtheory.emulator.faults import FaultBook, FaultRule, Site, parse_fault, parse_fault_option
from brtheory.errors import InputError

CHAT = "/v1/chat/completions"


def site(**changes):
    return Site(**{"role": "decode", "endpoint": "decode-1", "path": CHAT, "rank": 1, **changes})


def book(*rules, seed=0):
    made = FaultBook(seed)
    for rule in rules:
        made.add(FaultRule(**rule))
    return made


def test_a_rule_strikes_as_often_as_it_says_and_no_more():
    faults = book({"kind": "status", "times": 2})
    assert [faults.take(site()) is not None for _ in range(3)] == [True, True, False]


def test_a_rule_without_a_number_strikes_until_cleared():
    faults = book({"kind": "status", "times": None})
    assert all(faults.take(site()) for _ in range(20))
    faults.clear()
    assert faults.take(site()) is None


@pytest.mark.parametrize(
    ("where", "miss"),
    [
        ({"role": "decode"}, {"role": "prefill"}),
        ({"endpoint": "decode-1"}, {"endpoint": "decode-2"}),
        ({"rank": 1}, {"rank": 2}),
        ({"rank": 1}, {"rank": None}),
        ({"path": CHAT}, {"path": "/v1/completions"}),
        ({}, {"path": "/health"}),
    ],
)
def test_a_rule_strikes_only_where_it_applies(where, miss):
    faults = book({"kind": "death", **where})
    assert faults.take(site(**miss)) is None
    assert faults.take(site()).kind == "death"


def test_a_reset_of_reused_connections_spares_fresh_ones():
    faults = book({"kind": "reset_reused"})
    assert faults.take(site(reused=False)) is None
    assert faults.take(site(reused=True)) is not None


def test_the_first_rule_in_order_of_entry_strikes_and_only_it():
    faults = book({"kind": "stall"}, {"kind": "death"})
    assert [faults.take(site()).kind for _ in range(2)] == ["stall", "death"]


def test_draws_follow_the_seed_and_their_share_the_probability():
    rule = {"kind": "empty", "times": None, "probability": 0.25}

    def hits(seed):
        faults = book(rule, seed=seed)
        return [faults.take(site()) is not None for _ in range(2000)]

    assert hits(1) == hits(1) != hits(2)
    # Binomial(2000, 1/4): mean 500, standard deviation 19.4; five of them.
    assert 403 < sum(hits(1)) < 597


def test_hits_are_counted():
    faults = book({"kind": "status", "status": 503})
    faults.take(site())
    assert faults.to_json() == [
        {
            "number": 0,
            "seen": 1,
            "hits": 1,
            "kind": "status",
            "times": 1,
            "probability": 1.0,
            "after_tokens": 0,
            "status": 503,
            "content_type": "application/json",
        }
    ]


def test_the_option_and_the_json_mean_the_same():
    option = parse_fault_option("status:status=503,rank=1,times=null,retry_after=7")
    text = '{"kind":"status","status":503,"rank":1,"times":null,"retry_after":"7"}'
    assert option == parse_fault(text, name="x")
    assert parse_fault_option("death") == FaultRule(kind="death")


@pytest.mark.parametrize(
    "text",
    ["explode", "status:503", "status:status=200", "death:after_tokens=-1", "death:when=now", ""],
)
def test_an_option_that_does_not_fit_is_one_line(text):
    with pytest.raises(InputError) as caught:
        parse_fault_option(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("--fault")
