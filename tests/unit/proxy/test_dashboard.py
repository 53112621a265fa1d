"""What the dashboard is drawn from: recent values, phases of routers, samples, the page itself."""

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brtheory.core.imbalance import imbalance
from brtheory.core.requests import Request
from brtheory.proxy.dashboard import sampler as sampler_module
from brtheory.proxy.dashboard.catalog import router_catalog
from brtheory.proxy.dashboard.feed import INTERVAL_S, MOST_WATCHERS, event
from brtheory.proxy.dashboard.page import load_page
from brtheory.proxy.dashboard.sampler import HISTORY, PHASES, Point, Sampler
from brtheory.proxy.desk import Desk
from brtheory.proxy.recent import RecentValues
from brtheory.proxy.telemetry import Telemetry
from brtheory.proxy.ticker import RouterChoice, servable_routers
from brtheory.routers.params import params_from_json
from brtheory.routers.registry import find_router
from tests.unit.proxy.desk import Clock, make_desk

SHARES = (0.01, 0.5, 0.9, 0.99, 1.0)


def make_sampler(desk: Desk) -> Sampler:
    return Sampler(desk, Telemetry(desk), draining=lambda: False)


# -- recent values -------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_quantiles_are_the_inverted_distribution_function(values: list[float]) -> None:
    recent = RecentValues(lambda: 0.0)
    for value in values:
        recent.add(value)
    expected = np.quantile(values, SHARES, method="inverted_cdf").tolist()
    # numpy's own rounding of share * n may step over a rank that is met exactly.
    exact = [sorted(values)[math.ceil(share * len(values)) - 1] for share in SHARES]
    assert recent.quantiles(SHARES) == exact
    assert sum(a == b for a, b in zip(exact, expected, strict=True)) >= len(SHARES) - 1


def test_values_are_forgotten_after_the_window_and_beyond_the_bound() -> None:
    clock = Clock()
    recent = RecentValues(clock, window_s=10.0, most=3)
    assert recent.quantiles((0.5,)) == [None]
    for value in range(5):
        recent.add(float(value))
    assert (len(recent), recent.quantiles((0.01, 1.0))) == (3, [2.0, 4.0])
    clock.pass_(10.0)
    recent.add(9.0)
    assert recent.quantiles((0.01, 1.0)) == [3.0, 9.0]
    clock.pass_(10.5)
    assert (len(recent), recent.quantiles((1.0,))) == (0, [None])


# -- samples and phases --------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.floats(0.01, 5), st.integers(0, 500), st.integers(0, 1), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_phases_add_up_to_the_integrals_of_what_was_sampled(
    steps: list[tuple[float, int, int, bool]],
) -> None:
    """Each step: time passes, a replica's load changes, and the router may be switched."""
    desk, clock = make_desk(replicas=2, slots=8)
    sampler, names = make_sampler(desk), list(desk.mirror.replicas)
    holds: list[Any] = []
    expected, total_s = {0: [0.0, 0.0]}, 0.0
    for number, (seconds, tokens, replica, switched) in enumerate(steps):
        if switched:
            desk.ticker.use(RouterChoice("pool-fifo"))
            expected[len(expected)] = [0.0, 0.0]
        if len(holds) < 8:
            holds.append(desk.mirror.bind(Request(number, 1 + tokens), names[replica]))
        else:
            desk.mirror.release(holds.pop())
        clock.pass_(seconds)
        total_s += seconds
        sampler.sample()
        loads = desk.mirror.loads(names)
        expected[len(expected) - 1][0] += imbalance(loads) * seconds
        expected[len(expected) - 1][1] += 2 * max(loads) * seconds
    phases = sampler.snapshot()["phases"]
    assert len(phases) == min(PHASES, len(expected))
    for phase in phases:
        lost, whole = expected[phase["number"]]
        known = phase["barrier_idle_ratio"]
        assert known is None if whole == 0 else math.isclose(known, lost / whole, abs_tol=1e-5)
    if len(expected) <= PHASES:
        assert math.isclose(sum(p["seconds"] for p in phases), total_s, abs_tol=0.001 * PHASES)


def test_a_snapshot_says_what_the_books_say() -> None:
    """Loads 100 and 40: I = 2*100 - 140 = 60, idle 60/200; 20 tokens in 2 s are 10 a second."""
    desk, clock = make_desk(replicas=2, slots=4)
    sampler, (first, second) = make_sampler(desk), list(desk.mirror.replicas)
    hold = desk.mirror.bind(Request(1, 80), first)
    desk.mirror.bind(Request(2, 40), second)
    sampler.sample()
    clock.pass_(2.0)
    hold.grow(20)
    sampler.sample()
    snapshot = sampler.snapshot()
    assert snapshot["imbalance_tokens"] == 60
    assert math.isclose(snapshot["barrier_idle_ratio"], 0.3)
    assert [r["tokens"] for r in snapshot["replicas"]] == [100, 40]
    assert [r["tokens_per_s"] for r in snapshot["replicas"]] == [10.0, 0.0]
    assert (snapshot["tokens_per_s"], snapshot["decoding_requests"]) == (10.0, 2)
    (phase,) = snapshot["phases"]
    assert (phase["router"], phase["decoded_tokens"], phase["tokens_per_s"]) == ("br0", 20, 10.0)


def test_what_waits_in_an_engines_queue_stands_at_no_barrier() -> None:
    """One slot: 80 tokens run, 40 wait; the other replica runs 60. I = 2*80 - 140 = 20."""
    desk, clock = make_desk(replicas=2, slots=1)
    sampler, (first, second) = make_sampler(desk), list(desk.mirror.replicas)
    desk.mirror.bind(Request(1, 79), first).grow(1)
    desk.mirror.bind(Request(2, 40), first)
    desk.mirror.bind(Request(3, 60), second)
    clock.pass_(1.0)
    sampler.sample()
    snapshot = sampler.snapshot()
    replicas = snapshot["replicas"]
    assert [(r["tokens"], r["queued_tokens"]) for r in replicas] == [(80, 40), (60, 0)]
    assert (snapshot["imbalance_tokens"], snapshot["phases"][0]["imbalance_tokens"]) == (20, 20.0)
    assert (snapshot["decoding_requests"], snapshot["engine_queue_requests"]) == (2, 1)


def test_an_estimate_put_right_downwards_and_a_removed_replica_are_no_negative_work() -> None:
    desk, clock = make_desk(replicas=2, slots=4)
    sampler, (first, second) = make_sampler(desk), list(desk.mirror.replicas)
    hold = desk.mirror.bind(Request(1, 80), first)
    hold.grow(30)
    sampler.sample()
    hold.grow(-10)
    desk.fleet.remove(second)
    desk.mirror.remove_replica(second)
    clock.pass_(1.0)
    sampler.sample()
    snapshot = sampler.snapshot()
    # 30 tokens, then 10 fewer, all within a second of the start; the phase counted the 30.
    assert [r["tokens_per_s"] for r in snapshot["replicas"]] == [20.0]
    assert snapshot["phases"][0]["decoded_tokens"] == 30


def test_what_is_remembered_is_bounded() -> None:
    desk, clock = make_desk()
    sampler = make_sampler(desk)
    for number in range(HISTORY + 50):
        clock.pass_(0.25)
        if number % 20 == 0:
            desk.ticker.use(RouterChoice("pool-fifo"))
        sampler.sample()
    history = sampler.history()
    assert set(history) == set(Point._fields)
    assert {len(column) for column in history.values()} == {HISTORY}
    assert history["time_s"] == sorted(history["time_s"])
    assert len(sampler.snapshot()["phases"]) == PHASES
    # A page that comes late loads less than 100 KB, and 4 snapshots a second are a trickle.
    assert len(event("history", history)) < 100_000
    assert len(event("snapshot", sampler.snapshot())) < 8_000
    assert 2 <= 1 / INTERVAL_S <= 4
    assert MOST_WATCHERS <= 32


def test_without_a_live_replica_nothing_is_invented() -> None:
    desk, clock = make_desk(replicas=1)
    for worker in desk.fleet.of("decode"):
        worker.draining = True
    sampler = make_sampler(desk)
    clock.pass_(1.0)
    sampler.sample()
    snapshot = sampler.snapshot()
    assert snapshot["imbalance_tokens"] is None
    assert snapshot["barrier_idle_ratio"] is None
    assert snapshot["phases"][0]["imbalance_tokens"] is None
    assert snapshot["replicas"][0]["live"] is False
    json.dumps(snapshot, allow_nan=False)


def test_a_sample_costs_little_even_for_many_replicas() -> None:
    """It reads the books' sums, never the requests: no load entry is looked at."""
    desk, clock = make_desk(replicas=64, slots=64)
    sampler = make_sampler(desk)
    names = list(desk.mirror.replicas)
    for number in range(2048):
        desk.mirror.bind(Request(number, 10), names[number % 64])
    desk.mirror._holds = None  # type: ignore[assignment]  # nobody may read it
    clock.pass_(1.0)
    sampler.sample()
    assert sampler.snapshot()["decoding_requests"] == 2048
    assert sampler_module.RATE_S > INTERVAL_S


# -- the page and the choice ---------------------------------------------------------------------


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing_else() -> None:
    page = load_page()
    html = page.body.decode()
    outside = [u for u in re.findall(r"https?://[^\s\"')]+", html) if "www.w3.org" not in u]
    assert outside == []
    assert not re.search(r"\son\w+\s*=", html.split("<script>")[0])
    assert not re.search(r"<[^>]+\sstyle=", html)
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in html
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "/*script*/" not in html
    assert "/*style*/" not in html


@pytest.mark.parametrize("entry", router_catalog(), ids=lambda entry: entry["name"])
def test_the_form_of_every_router_offers_parameters_that_are_accepted(entry: Any) -> None:
    spec = find_router(entry["name"])
    fields = entry["params"].get("properties", {})
    defaults = {name: rule["default"] for name, rule in fields.items()}
    assert params_from_json(spec.params, defaults, where="params") == spec.params()
    kinds = {kind.get("type") for rule in fields.values() for kind in rule.get("anyOf", [rule])}
    # The page knows how to ask for these and no others.
    assert kinds <= {"integer", "number", "string", "null"}


def test_the_catalogue_lists_every_router_that_can_serve_once() -> None:
    assert [entry["name"] for entry in router_catalog()] == servable_routers()
    assert {entry["family"] for entry in router_catalog()} == {"immediate", "pooled"}
