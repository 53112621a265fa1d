"""Laws of the books: random schedules leak nothing, the mirror and its rows equal the truth."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.horizon import RebuiltHorizonState, predicted_finish
from brtheory.core.requests import Request
from brtheory.prediction.projection_rules import ProjectionRules
from brtheory.prediction.protocol import Prediction, Running
from brtheory.proxy.desk import Desk
from brtheory.proxy.events import (
    ClientLeft,
    Completed,
    ConnectFailed,
    DecodeOpened,
    Event,
    Failed,
    FirstByte,
    KvSpent,
    PrefillDone,
    PrefillFailed,
    Recomputed,
)
from brtheory.proxy.faults import RequestError
from brtheory.proxy.lifecycle import Phase
from brtheory.proxy.mirror import LoadMirror
from brtheory.proxy.passage import Passage
from brtheory.proxy.pool import PoolLimits
from brtheory.proxy.projection import StreamProjection
from brtheory.proxy.ticker import RouterChoice
from brtheory.routers.registry import router_specs
from tests.unit.proxy.desk import books_are_empty, client_request, make_desk

ROUTERS = sorted(name for name in router_specs() if name not in ("exact-tick", "bf-io-exact"))


class Schedule:
    """Drives a desk at random; cancels wherever a request happens to be."""

    def __init__(self, desk: Desk, rng: Random) -> None:
        self.desk, self.rng = desk, rng
        self.open: list[Passage] = []
        self.cancelled: dict[Phase, int] = dict.fromkeys(Phase, 0)
        self.refused = 0

    def arrive(self) -> None:
        fields = {"prompt": "x" * self.rng.randrange(1, 400), "max_tokens": 50}
        passage = Passage(self.desk, client_request(**fields), wake=lambda: None)
        try:
            passage.queue()
        except RequestError:
            passage.apply(Failed(429, "queue full"))
            self.refused += 1
        else:
            self.open.append(passage)

    def cancel(self) -> None:
        passage = self.rng.choice(self.open)
        self.cancelled[passage.phase] += 1
        passage.apply(ClientLeft())
        self.close()

    def move(self) -> None:
        passage = self.rng.choice(self.open)
        event = self.next_event(passage)
        if event is not None:
            passage.apply(event)
            if passage.phase is Phase.QUEUED:
                passage.queue()
        elif passage.hold is not None:
            passage.hold.grow(1)
        self.close()

    def next_event(self, passage: Passage) -> Event | None:
        """Something that may happen to it now, None for one more token (or for waiting)."""
        life, roll = passage.life, self.rng.random()
        event: Event | None = None
        if passage.phase is Phase.PREFILLING:
            failed = roll < 0.2 and life.may_try_another_node
            done = PrefillDone("p0", self.rng.randrange(1, 100))
            event = PrefillFailed("p0", "502") if failed else done
        elif passage.phase is Phase.CONNECTING:
            event = DecodeOpened("d")
            if roll < 0.2 and life.may_bind_again:
                event = ConnectFailed("d")
            elif roll < 0.4 and life.may_start_afresh:
                event = KvSpent("d", "503")
        elif passage.phase is Phase.DECODING and roll < 0.7:
            event = FirstByte()
        elif passage.phase is Phase.STREAMING and roll < 0.3:
            event = self.rng.choice([Completed(3), Failed(502, "cut"), Recomputed()])
        return event

    def close(self) -> None:
        self.open = [passage for passage in self.open if not passage.phase.final]
        # Nothing is out of the pool's books that is in it, and the other way round.
        pooled = [p for p in self.open if p.phase is Phase.POOLED]
        assert len(pooled) == len(self.desk.pool) == len(self.desk.waiting)
        held = [p.hold for p in self.open if p.hold is not None]
        assert len(held) == len(self.desk.mirror.holds())


@pytest.mark.parametrize("router", ROUTERS)
def test_a_thousand_cancellations_in_every_phase_leak_nothing(router: str) -> None:
    params = {"horizon": 6} if router == "brh" else {}
    desk, clock = make_desk(
        replicas=3,
        slots=3,
        prefill_kv=600,
        limits=PoolLimits(requests=6, tokens=500, body_bytes=3000),
        longest=5,
        choice=RouterChoice(router, params),
    )
    rng = Random(f"cancellations {router}")
    schedule = Schedule(desk, rng)
    while sum(schedule.cancelled.values()) < 1000:
        clock.pass_(rng.random() * 0.7)
        if len(schedule.open) < 14:
            schedule.arrive()
        for _ in range(rng.randrange(4)):
            if schedule.open:
                schedule.move()
        desk.dispatch()
        schedule.close()
        if schedule.open and rng.random() < 0.4:
            schedule.cancel()
    while schedule.open:
        schedule.cancel()
    desk.dispatch()
    assert books_are_empty(desk)
    assert desk.ticker.fallbacks == 0
    assert schedule.refused > 0
    phases = (Phase.QUEUED, Phase.PREFILLING, Phase.CONNECTING, Phase.DECODING, Phase.STREAMING)
    assert all(schedule.cancelled[phase] > 20 for phase in phases)
    if not desk.ticker.immediate:  # an immediate router leaves nobody in the pool
        assert schedule.cancelled[Phase.POOLED] > 20
    assert desk.prefills.stranded_requests >= schedule.cancelled[Phase.CONNECTING]


# -- mirror --------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.sampled_from(["bind", "grow", "grow", "release"]), st.integers(0, 99)),
    max_size=60,
)


@settings(deadline=None)
@given(events=EVENTS)
def test_the_mirror_equals_a_recount_of_what_is_bound(events: list[tuple[str, int]]) -> None:
    mirror, names = LoadMirror(), ["a", "b", "c"]
    for name in names:
        mirror.add_replica(name, slots=2, kv_tokens=10_000)
    for number, (kind, value) in enumerate(events):
        holds = mirror.holds()
        if kind == "bind":
            mirror.bind(Request(number, 1 + value, 0.0, 2 + value), names[value % 3])
        elif holds:
            hold = holds[value % len(holds)]
            if kind == "grow":
                hold.grow(value % 4)
            else:
                mirror.release(hold)
        mine = {name: [h for h in mirror.holds() if h.replica == name] for name in names}
        assert mirror.loads(names) == [
            sum(h.request.prompt_tokens + h.age for h in mine[name]) for name in names
        ]
        assert mirror.free_slots(names) == [max(0, 2 - len(mine[name])) for name in names]
        assert mirror.free_tokens(names) == [
            10_000 - sum(h.request.reserved_tokens for h in mine[name]) for name in names
        ]
        view = mirror.view(names)
        assert (view.loads + view.queued_tokens).tolist() == mirror.loads(names)
        assert (view.active + view.queued).tolist() == [len(mine[name]) for name in names]


class Lookup:
    """Predicts by a fixed table; learning is only recorded."""

    def __init__(self, remaining: Sequence[int]) -> None:
        self._remaining = remaining
        self.seen: list[tuple[str, int, int]] = []
        self.refit_due = False

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        left = self._remaining[request.id] - age
        if not 1 <= left <= horizon:
            return Prediction(0.0, None)
        return Prediction(1.0, float(left))

    def observe_admitted(self, request: Request) -> None:
        self.seen.append(("admitted", request.id, 0))

    def observe_finished(self, request: Request, *, output_tokens: int) -> None:
        self.seen.append(("finished", request.id, output_tokens))

    def observe_cancelled(self, request: Request, *, output_tokens: int) -> None:
        self.seen.append(("cancelled", request.id, output_tokens))

    def refit(self, running: Sequence[Running]) -> None:
        raise AssertionError(running)


JOBS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 14), st.integers(0, 2), st.integers(0, 8)),
    min_size=1,
    max_size=10,
)
"""Requests as (prompt, output, replica, step of admission)."""


@settings(max_examples=60, deadline=None)
@given(jobs=JOBS, horizon=st.integers(1, 6))
def test_in_lockstep_projected_rows_equal_the_rebuild_from_the_truth(
    jobs: list[tuple[int, int, int, int]], horizon: int
) -> None:
    outputs = [output for _, output, _, _ in jobs]
    names, mirror = ["a", "b", "c"], LoadMirror()
    for name in names:
        mirror.add_replica(name, slots=20)
    predictor = Lookup(outputs)
    rules = ProjectionRules(refresh=1000)
    projection = StreamProjection(predictor, names=names, horizon=horizon, rules=rules)
    holds = {}
    truth = RebuiltHorizonState(replicas=3, horizon=horizon)
    for step in range(24):
        for hold in [h for h in holds.values() if h.age == outputs[h.request.id]]:
            projection.retire(hold, finished=True)
            mirror.release(hold)
            truth.retire(hold.request.id)
            del holds[hold.request.id]
        assert projection.rows()[:, 0].tolist() == mirror.loads(names)
        for number, (prompt, output, replica, start) in enumerate(jobs):
            if start == step:
                hold = mirror.bind(Request(number, prompt), names[replica])
                holds[number] = hold
                projection.admit(hold)
                c_hat = output if output <= horizon else horizon
                finish = predicted_finish(c_hat, step=truth.step, horizon=horizon)
                truth.admit(number, replica, tokens=prompt, finish=finish)
        assert projection.rows().tolist() == truth.rows().tolist()
        for hold in holds.values():
            hold.grow(1)
        truth.advance(1 if holds else 0)
    assert [(n, o) for kind, n, o in predictor.seen if kind == "finished"] == [
        (n, outputs[n]) for n in [n for kind, n, _ in predictor.seen if kind == "finished"]
    ]


@settings(deadline=None)
@given(
    growth=st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), max_size=8),
    horizon=st.integers(1, 5),
)
def test_whatever_streams_bring_the_present_column_is_exact(
    growth: list[list[int]], horizon: int
) -> None:
    names, mirror = ["a", "b"], LoadMirror()
    for name in names:
        mirror.add_replica(name, slots=4)
    projection = StreamProjection(Lookup([7, 9, 3, 50]), names=names, horizon=horizon)
    holds = [mirror.bind(Request(n, 10 + n), names[n % 2]) for n in range(4)]
    for hold in holds:
        projection.admit(hold)
    for tokens in growth:
        for hold, more in zip(holds, tokens, strict=True):
            hold.grow(more)
        rows = projection.rows()
        assert rows[:, 0].tolist() == mirror.loads(names)
        assert (rows >= 0).all()


# -- ticker --------------------------------------------------------------------------------------


@pytest.mark.parametrize("router", ROUTERS)
def test_every_router_of_the_registry_binds_what_it_can_and_no_more(router: str) -> None:
    desk, clock = make_desk(replicas=2, slots=2, choice=RouterChoice(router))
    passages = []
    for number in range(6):
        passage = Passage(desk, client_request("x" * (40 * (number + 1))), wake=lambda: None)
        passage.queue()
        passage.apply(PrefillDone("p0", passage.prompt_tokens))
        clock.pass_(0.1)
        passages.append(passage)
    desk.dispatch()
    bound = [passage for passage in passages if passage.phase is Phase.CONNECTING]
    # Immediate routers bind all six; pooled ones fill the four slots and keep two for later.
    assert len(bound) == (6 if desk.ticker.immediate else 4)
    if not desk.ticker.immediate:
        assert desk.mirror.free_slots(desk.fleet.live("decode")) == [0, 0]
        bound[0].apply(ClientLeft())
        desk.dispatch()
        assert sum(p.phase is Phase.POOLED for p in passages) == 1
