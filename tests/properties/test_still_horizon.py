"""Projected loads without growth: whatever happens, the sum of what those present weigh now."""

from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.horizon import NEVER, HorizonState
from brtheory.core.still_horizon import StillHorizonState, make_horizon_state

REPLICAS = 3
EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("admit"),
            st.integers(0, REPLICAS - 1),
            st.integers(1, 50),
            st.none() | st.integers(1, 8),
        ),
        st.tuples(st.just("retire"), st.integers(0, 20)),
        st.tuples(st.just("refresh"), st.integers(0, 20), st.none() | st.integers(1, 8)),
        st.tuples(st.just("advance"), st.integers(0, 6)),
    ),
    max_size=25,
)


@given(events=EVENTS, horizon=st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_rows_are_the_sum_of_present_weights(events, horizon):
    state = StillHorizonState(replicas=REPLICAS, horizon=horizon)
    active, step = {}, 0

    def absolute(left):
        return int(NEVER) if left is None else step + left

    for number, event in enumerate(events):
        if event[0] == "admit":
            _, replica, tokens, left = event
            state.admit(number, replica, tokens=tokens, finish=absolute(left))
            active[number] = [replica, tokens, absolute(left)]
        elif event[0] == "advance":
            state.advance(event[1])
            step += event[1]
            for request in active.values():
                request[1] += event[1]
                if request[2] <= step:
                    request[2] = int(NEVER)  # outlived: an anchor until refreshed
        elif active:
            chosen = sorted(active)[event[1] % len(active)]
            if event[0] == "retire":
                state.retire(chosen)
                del active[chosen]
            else:
                state.refresh(chosen, finish=absolute(event[2]))
                active[chosen][2] = absolute(event[2])
        expected = [
            [
                sum(w for g, w, end in active.values() if g == replica and step + h < end)
                for h in range(horizon + 1)
            ]
            for replica in range(REPLICAS)
        ]
        assert state.rows().tolist() == expected
        assert state.columns[:, state.start : state.start + horizon + 1].tolist() == expected


def test_growth_chooses_the_state():
    assert type(make_horizon_state(replicas=1, horizon=2, growth=True)) is HorizonState
    assert type(make_horizon_state(replicas=1, horizon=2, growth=False)) is StillHorizonState
