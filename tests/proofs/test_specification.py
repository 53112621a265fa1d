"""The specification of the tick is right by hand-worked examples and by its own laws."""

from hypothesis import given
from hypothesis import strategies as st

from proofs.product import as_decisions, product_tick
from proofs.specification import Room, Rule, specified_tick, unbeaten


def test_stage_1_takes_the_largest_score_on_the_emptiest_replica():
    # Slots (2, 1), loads (0, 5): replica 0 has most slots, margin 5. F(3) = 3, F(5) = 5,
    # F(9) = 9 - 2*4 = 1: the 5 goes first; then slots (1, 1), loads (5, 5), S_tot = 2 is not
    # above 2, so stage 2: margin 0 on both, every F < 0, the guard takes the smaller 3 (F = -3);
    # then replica 1, margin 3: F(9) = 9 - 2*6 = -3.
    decided = specified_tick((0, 5), (2, 1), (3, 5, 9), rule=Rule(greedy=2))
    assert decided == [(1, 0, 1, 5), (0, 0, 2, -3), (2, 1, 2, -3)]


def test_stage_2_prefers_the_larger_set_among_equal_scores():
    # Margin 4, G = 2: F({4}) = 4 = F({1, 3}); equal sums, so the smaller mask {0, 1} wins.
    decided = specified_tick((0, 4), (3, 0), (1, 3, 4), rule=Rule(greedy=9))
    assert [(i, score) for i, _, _, score in decided[:2]] == [(0, 4), (1, 4)]


def test_margin_first_looks_at_the_margin_before_the_slots():
    slots_first = specified_tick((5, 0), (2, 1), (1,), rule=Rule(greedy=9))
    margin_first = specified_tick((5, 0), (2, 1), (1,), rule=Rule(greedy=9, margin_first=True))
    assert (slots_first[0][1], margin_first[0][1]) == (0, 1)


def test_nothing_is_decided_without_slots_or_requests():
    assert specified_tick((1, 2), (0, 0), (3,), rule=Rule(greedy=0)) == []
    assert specified_tick((1, 2), (1, 1), (), rule=Rule(greedy=0)) == []


def test_only_sets_with_room_are_options_and_a_replica_without_one_is_closed():
    # Margin 9 on replica 0: {2, 4} scores 6 but reserves 9 of 7, so the 4 goes alone (5 of 7);
    # then 2 are left, too few for the 4 that the 2 reserves, and replica 1 has no slot.
    room = Room(reserved=(4, 5), free=(7, 9))
    decided = specified_tick((0, 9), (3, 0), (2, 4), rule=Rule(greedy=9), room=room)
    assert decided == [(1, 0, 2, 4)]
    room = Room(reserved=(4, 5), free=(9, 0))
    decided = specified_tick((0, 9), (3, 0), (2, 4), rule=Rule(greedy=9), room=room)
    assert decided == [(0, 0, 2, 6), (1, 0, 2, 6)]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=9))
def test_unbeaten_is_the_first_maximum(keys: list[tuple[int, int]]):
    chosen = unbeaten(range(len(keys)), keys.__getitem__)
    assert chosen == keys.index(max(keys))


@given(
    loads=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 10**6), max_size=9),
    rule=st.builds(
        Rule,
        greedy=st.integers(0, 8),
        window=st.integers(1, 5),
        margin_first=st.booleans(),
        longest=st.booleans(),
    ),
    data=st.data(),
)
def test_the_product_decides_as_specified_on_large_states(loads, sizes, rule, data):
    entries = st.lists(st.integers(0, 4), min_size=len(loads), max_size=len(loads))
    slots = data.draw(entries)
    got = as_decisions(product_tick(loads, slots, sizes, rule=rule))
    assert got == specified_tick(loads, slots, sizes, rule=rule)
