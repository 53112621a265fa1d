"""The pool in arrays holds what the pool of objects holds, in the same order."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.core.pool import PromptPool
from brtheory.core.requests import Request
from brtheory.simulation.array_pool import ArrayPool

# A step adds requests (ready times with ties, ids in any order) and takes some by position.
steps = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 99)), max_size=40),
        st.sets(st.integers(0, 60), max_size=8),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(steps=steps, seed=st.integers(0, 2**32))
def test_arrays_equal_objects_after_every_addition_and_removal(steps, seed):
    arrays, objects, order = ArrayPool(), PromptPool(), Random(seed)
    ids = iter(order.sample(range(1000), 1000))
    for added, picked in steps:
        for ready, prompt in added:
            request = Request(next(ids), prompt, float(ready), prompt + 7)
            arrays.add(request)
            objects.add(request)
        positions = [p for p in picked if p < len(objects)]
        order.shuffle(positions)
        expected = [objects[p] for p in positions]
        assert arrays.take(positions) == objects.take(r.id for r in expected)
        assert len(arrays) == len(objects)
        assert arrays.prompt_tokens.tolist() == [r.prompt_tokens for r in objects]
        assert arrays.reserved_tokens.tolist() == [r.reserved_tokens for r in objects]
        assert arrays.ready_s.tolist() == [r.ready_s for r in objects]
        assert arrays.total_tokens == sum(r.prompt_tokens for r in objects)
