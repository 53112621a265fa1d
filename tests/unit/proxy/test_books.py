"""Books: gate, room, pool, prefill nodes, fleet, health, history."""

import json
from pathlib import Path

import pytest

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.proxy.faults import RequestError
from brtheory.proxy.fleet import Fleet, Worker, decode_replicas
from brtheory.proxy.gate import Gate, Ticket
from brtheory.proxy.health import HealthRecord, counts_against
from brtheory.proxy.history import Outcome, OutputHistory, make_predictor, prompt_hash
from brtheory.proxy.mirror import LoadMirror, barrier_idle
from brtheory.proxy.pool import Pooled, PoolLimits, Room, WaitingPool, lease_times
from brtheory.proxy.prefill import PrefillNodes

# -- room and pool -------------------------------------------------------------------------------


def test_room_is_bounded_by_requests_tokens_and_bytes() -> None:
    room = Room(PoolLimits(requests=2, tokens=100, body_bytes=1000))
    place = room.take(tokens=60, size=500)
    assert room.fits(tokens=40, size=500)
    assert not room.fits(tokens=41, size=1)
    assert not room.fits(tokens=1, size=501)
    room.take(tokens=1, size=1)
    assert not room.fits(tokens=1, size=1)
    place.correct(10)
    place.give_back()
    place.give_back()
    assert (room.requests, room.tokens, room.body_bytes) == (1, 1, 1)


def test_an_empty_room_takes_a_single_request_of_any_size() -> None:
    assert Room(PoolLimits(requests=1, tokens=1, body_bytes=1)).fits(tokens=10**6, size=10**9)


@pytest.mark.parametrize("field", ["requests", "tokens", "body_bytes"])
def test_bounds_below_one_are_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"pool.{field}"):
        PoolLimits(**{field: 0})


def pooled(number: int, *, ready_s: float = 0.0, lease_s: float | None = 30.0) -> Pooled:
    bind_by_s, end_s = lease_times(ready_s, lease_s)
    return Pooled(Request(number, 10 * number, ready_s), 5, None, bind_by_s, end_s)


def test_the_pool_keeps_ready_order_and_counts_tokens() -> None:
    pool = WaitingPool()
    for entry in (pooled(3, ready_s=2.0), pooled(1, ready_s=9.0), pooled(2, ready_s=1.0)):
        pool.add(entry)
    assert [request.id for request in pool.requests] == [2, 3, 1]
    assert pool.tokens == 60
    pool.take([3])
    assert (pool.tokens, len(pool), 3 in pool) == (30, 2, False)


def test_deadlines_follow_the_lease() -> None:
    pool = WaitingPool()
    pool.add(pooled(1, ready_s=0.0))
    pool.add(pooled(2, ready_s=10.0))
    pool.add(pooled(3, ready_s=0.0, lease_s=None))
    # A lease of 30 s: bound anyway at 24 s, gone at 30 s; ten seconds later for the second.
    assert pool.next_deadline_s(0.0) == 24.0
    assert [e.request.id for e in pool.due(23.9)] == []
    assert [e.request.id for e in pool.due(34.0)] == [1, 2]
    assert pool.next_deadline_s(24.0) == 30.0
    assert [e.request.id for e in pool.take_expired(30.0)] == [1]
    assert pool.expired == 1
    assert [e.request.id for e in pool.take_expired(1e9)] == [2]
    assert pool.next_deadline_s(1e9) == float("inf")


# -- gate ----------------------------------------------------------------------------------------


def ticket(passed: list[int], number: int) -> Ticket:
    return Ticket(number, 1, lambda: passed.append(number))


def test_the_gate_is_first_come_first_served_and_is_never_overtaken() -> None:
    passed: list[int] = []
    gate = Gate(longest=9)
    for number in (7, 1, 2):
        gate.enter(ticket(passed, number))
    assert gate.pump(lambda t: t.tokens < 5, now_s=0.0) == 0
    assert gate.pump(lambda t: t.tokens != 2, now_s=0.0) == 2
    assert passed == [7, 1]
    assert len(gate) == 1


def test_a_full_line_answers_429_with_a_time_to_retry_that_follows_its_pace() -> None:
    passed: list[int] = []
    gate = Gate(longest=2)
    for second in (0.0, 4.0):
        gate.enter(ticket(passed, 1))
        gate.pump(lambda _: True, now_s=second)
    gate.enter(ticket(passed, 2))
    gate.enter(ticket(passed, 3))
    with pytest.raises(RequestError) as caught:
        gate.enter(ticket(passed, 4))
    # One passes every 4 s and two stand before: 12 s.
    assert (caught.value.status, caught.value.retry_after_s) == (429, 12)


def test_those_who_come_back_go_first_and_those_who_leave_are_gone() -> None:
    passed: list[int] = []
    gate = Gate(longest=1)
    leaving = ticket(passed, 1)
    gate.enter(leaving)
    gate.come_back(ticket(passed, 2))
    gate.leave(leaving)
    gate.leave(leaving)
    gate.pump(lambda _: True, now_s=0.0)
    assert passed == [2]


# -- prefill nodes -------------------------------------------------------------------------------


def test_the_node_that_computes_least_is_next_and_ties_take_turns() -> None:
    nodes = PrefillNodes()
    for name in "abc":
        nodes.add(name)
    live = list("abc")
    seen = [nodes.choose(live, tokens=1, now_s=0.0) for _ in range(6)]
    assert sorted(name or "" for name in seen) == list("aabbcc")
    nodes.start("a", 5)
    nodes.start("b", 1)
    nodes.start("c", 3)
    assert nodes.choose(live, tokens=1, now_s=0.0) == "b"
    assert nodes.choose(live, tokens=1, now_s=0.0, avoid={"b"}) == "c"
    assert nodes.choose(["b"], tokens=1, now_s=0.0, avoid={"b"}) == "b"
    assert nodes.choose([], tokens=1, now_s=0.0) is None


def test_a_node_is_closed_by_what_it_holds_until_the_lease_of_stranded_kv_ends() -> None:
    nodes = PrefillNodes()
    nodes.add("a", kv_tokens=100)
    nodes.pin("a", 90)
    assert nodes.choose(["a"], tokens=11, now_s=0.0) is None
    nodes.strand("a", 90, until_s=30.0)
    assert nodes.choose(["a"], tokens=11, now_s=29.0) is None
    assert nodes.choose(["a"], tokens=11, now_s=30.0) == "a"
    assert (nodes.stranded_requests, nodes.stranded_tokens) == (1, 90)


def test_reported_usage_closes_a_node() -> None:
    nodes = PrefillNodes()
    nodes.add("a")
    nodes.nodes["a"].usage = 0.96
    assert nodes.choose(["a"], tokens=1, now_s=0.0) is None
    nodes.nodes["a"].usage = 0.5
    assert nodes.choose(["a"], tokens=1, now_s=0.0) == "a"


# -- health and fleet ----------------------------------------------------------------------------


def test_a_node_falls_and_rises_only_after_several_in_a_row() -> None:
    record = HealthRecord(fall_after=3, rise_after=2)
    outcomes = [record.failed("x"), record.failed("x"), record.succeeded(), record.failed("x")]
    assert (outcomes, record.up, record.changes) == ([False] * 4, True, 0)
    assert [record.failed("y"), record.failed("y")] == [False, True]
    assert (record.up, record.reason) == (False, "y")
    assert [record.succeeded(), record.failed("z"), record.succeeded()] == [False] * 3
    assert record.succeeded()
    assert (record.up, record.reason, record.changes) == (True, None, 2)


def test_client_errors_never_count_against_a_node() -> None:
    assert [s for s in range(400, 600) if counts_against(s)] == [500, 502, 503, 504]


def test_replicas_of_a_node_have_its_global_ranks() -> None:
    workers = decode_replicas("d", "http://d", ranks=[4, 5], slots=8)
    assert [(w.name, w.rank) for w in workers] == [("d/4", 4), ("d/5", 5)]
    assert decode_replicas("d", "http://d", ranks=None, slots=8)[0].rank is None
    for ranks in ([4, 4], [-1]):
        with pytest.raises(InputError, match="global ranks"):
            decode_replicas("d", "http://d", ranks=ranks, slots=8)


def test_two_workers_cannot_be_the_same_rank() -> None:
    fleet = Fleet()
    fleet.add(Worker("a", "decode", "http://d", rank=1, slots=1))
    fleet.add(Worker("b", "decode", "http://d", rank=2, slots=1))
    with pytest.raises(InputError, match="address and rank"):
        fleet.add(Worker("c", "decode", "http://d", rank=2, slots=1))
    fleet.find("a").draining = True
    assert fleet.live("decode") == ["b"]


# -- mirror --------------------------------------------------------------------------------------


def test_requests_beyond_the_slots_are_seen_as_queued() -> None:
    mirror = LoadMirror()
    mirror.add_replica("d", slots=2)
    mirror.add_replica("e", slots=2)
    for number, prompt in ((1, 10), (2, 20), (3, 40)):
        hold = mirror.bind(Request(number, prompt), "d")
        if number < 3:
            hold.grow(1)
    view = mirror.view(["d", "e"])
    assert view.loads.tolist() == [32, 0]
    assert view.active.tolist() == [2, 0]
    assert view.queued.tolist() == [1, 0]
    assert view.queued_tokens.tolist() == [40, 0]


def test_a_corrected_prompt_keeps_the_tokens_decoded() -> None:
    mirror = LoadMirror()
    mirror.add_replica("d", slots=2)
    hold = mirror.bind(Request(1, 10), "d")
    hold.grow(3)
    hold.correct_prompt(100)
    assert (hold.tokens, mirror.loads(["d"])) == (103, [103])
    mirror.release(hold)
    assert mirror.loads(["d"]) == [0]


def test_barrier_idle_is_the_share_that_waits() -> None:
    # I = 2*30 - 40 = 20 of G*M = 60.
    assert barrier_idle([30, 10]) == pytest.approx(20 / 60)
    assert barrier_idle([0, 0]) is None
    assert barrier_idle([]) is None


# -- history -------------------------------------------------------------------------------------


def test_history_survives_a_restart_and_teaches_any_predictor(tmp_path: Path) -> None:
    history, path = OutputHistory(memory=50), tmp_path / "history.json"
    for _ in range(60):
        history.add(Outcome(77, 9, 20, finished=True))
    history.add(Outcome(None, 9, 5, finished=False))
    history.save(path)
    again = OutputHistory(memory=50)
    again.load(path)
    assert list(again) == list(history)
    assert len(again) == 50
    for name in ("survival", "exact-match"):
        prefixes: dict[int, int] = {1: 77}
        predictor = make_predictor(name, prefixes)
        again.replay(predictor, prefixes)
        # All that finished had 20 tokens: at age 15 it ends in 5 for sure.
        prediction = predictor.predict(Request(1, 9), age=15, horizon=10)
        assert (prediction.p_finish, prediction.mean_remaining) == (1.0, 5.0)
        assert prefixes == {1: 77}


def test_a_broken_history_file_is_an_input_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text('{"schema": "brtheory.proxy-history/1",\n"outcomes": [{"prefix": "x"}]}')
    with pytest.raises(InputError, match=r"history\.json:2"):
        OutputHistory().load(path)
    OutputHistory().load(tmp_path / "none.json")


def test_prompt_hashes_tell_prompts_apart_and_fit_64_bits() -> None:
    one, two = prompt_hash({"prompt": "a"}), prompt_hash({"prompt": "b"})
    assert one != two
    assert one == prompt_hash({"prompt": "a", "max_tokens": 9})
    assert one is not None
    assert 0 <= one < 2**63
    assert json.loads(json.dumps(one)) == one
    assert prompt_hash({}) is None
