"""The transition table: complete, drawn from itself, and strict about rights that are used up."""

import pytest

from brtheory.proxy.events import (
    Bound,
    ClientLeft,
    Completed,
    ConnectFailed,
    DecodeOpened,
    Event,
    Failed,
    FirstByte,
    KvSpent,
    LeaseExpired,
    PrefillDone,
    PrefillFailed,
    PrefillSent,
    Recomputed,
)
from brtheory.proxy.lifecycle import (
    TABLE,
    Effect,
    IllegalTransitionError,
    Lifecycle,
    Phase,
    as_markdown,
    as_mermaid,
)

TO_STREAM: tuple[Event, ...] = (
    PrefillSent("p"),
    PrefillDone("p", 9),
    Bound("d", 0.0),
    DecodeOpened("d"),
    FirstByte(),
)


def life(*events: Event, **rights: int) -> tuple[Lifecycle, list[Effect]]:
    effects: list[Effect] = []
    made = Lifecycle(effects.append, **rights)
    for event in events:
        made.apply(event)
    return made, effects


def test_every_phase_that_is_not_final_ends_on_failure_and_on_the_clients_leaving() -> None:
    for event, end in ((Failed, Phase.FAILED), (ClientLeft, Phase.CANCELLED)):
        ways = {row.phase for row in TABLE if row.event is event and row.next is end}
        assert ways == {phase for phase in Phase if not phase.final}


def test_no_row_leaves_a_final_phase_and_none_is_twice() -> None:
    assert not [row for row in TABLE if row.phase.final]
    keys = [(row.phase, row.event) for row in TABLE]
    assert len(set(keys)) == len(keys)


def test_load_is_held_exactly_in_the_phases_between_taking_and_giving() -> None:
    held = {Phase.CONNECTING, Phase.DECODING, Phase.STREAMING}
    for row in TABLE:
        assert (Effect.TAKE_LOAD in row.effects) == (row.phase not in held and row.next in held)
        assert (Effect.GIVE_LOAD in row.effects) == (row.phase in held and row.next not in held)


def test_a_place_is_held_exactly_while_prefilling_or_pooled() -> None:
    placed = {Phase.PREFILLING, Phase.POOLED}
    for row in TABLE:
        assert (Effect.TAKE_PLACE in row.effects) == (
            row.phase not in placed and row.next in placed
        )
        assert (Effect.GIVE_PLACE in row.effects) == (
            row.phase in placed and row.next not in placed
        )


def test_pinned_kv_is_spent_or_stranded_on_every_way_out() -> None:
    pinned = {Phase.POOLED, Phase.CONNECTING}
    for row in TABLE:
        if row.phase in pinned and row.next not in pinned:
            assert len({Effect.SPEND_KV, Effect.STRAND_KV} & set(row.effects)) == 1


def test_a_request_runs_through_and_forwards_only_after_decode_has_answered() -> None:
    made, effects = life(*TO_STREAM[:-1])
    assert not made.forwarded
    made.apply(TO_STREAM[-1])
    assert made.forwarded
    assert made.apply(Completed(5)) is Phase.DONE
    assert effects.count(Effect.TAKE_LOAD) == effects.count(Effect.GIVE_LOAD) == 1


@pytest.mark.parametrize("event", [KvSpent("d", "x"), ConnectFailed("d"), LeaseExpired()])
def test_nothing_is_retried_after_the_first_byte(event: Event) -> None:
    made, _ = life(*TO_STREAM)
    with pytest.raises(IllegalTransitionError):
        made.apply(event)
    assert made.phase is Phase.STREAMING


def test_spent_kv_leads_back_to_prefill_never_to_another_replica_and_only_once() -> None:
    made, _ = life(*TO_STREAM[:3])
    assert made.may_start_afresh
    assert made.apply(KvSpent("d", "reset")) is Phase.QUEUED
    for event in TO_STREAM[:3]:
        made.apply(event)
    assert not made.may_start_afresh
    with pytest.raises(IllegalTransitionError, match="fresh start"):
        made.apply(KvSpent("d", "reset"))
    assert made.phase is Phase.CONNECTING


def test_prefill_is_tried_on_another_node_as_often_as_allowed() -> None:
    made, _ = life(PrefillSent("p"), prefill_attempts=2)
    assert made.may_try_another_node
    made.apply(PrefillFailed("p", "502"))
    made.apply(PrefillSent("q"))
    assert not made.may_try_another_node
    with pytest.raises(IllegalTransitionError):
        made.apply(PrefillFailed("q", "502"))


def test_an_unreachable_replica_leaves_the_kv_usable_and_is_left_in_the_end() -> None:
    made, effects = life(*TO_STREAM[:3], reconnects=1)
    assert made.apply(ConnectFailed("d")) is Phase.POOLED
    assert Effect.SPEND_KV not in effects
    made.apply(Bound("e", 0.0))
    assert not made.may_bind_again
    with pytest.raises(IllegalTransitionError, match="another replica"):
        made.apply(ConnectFailed("e"))


def test_a_preempted_request_goes_back_to_prefill_even_after_bytes_were_forwarded() -> None:
    made, effects = life(*TO_STREAM, Recomputed())
    assert made.phase is Phase.QUEUED
    assert effects[-1] is Effect.GIVE_LOAD


def test_the_drawings_hold_every_row() -> None:
    assert as_mermaid().count("-->") == len(TABLE) + 1 + 3
    assert as_markdown().count("\n") == len(TABLE) + 1
    assert "pooled --> connecting: Bound, give the place back, take load" in as_mermaid()
