"""The stationary replica load: its law by enumeration, its extremes by an exact convolution."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.analysis.extremes import expected_max_sample
from brtheory.analysis.stationary import (
    WeightLaw,
    light_tail_excess,
    load_sigma,
    stationary_imbalance,
)
from brtheory.errors import InputError

rows = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=12)


def law_of(requests):
    prompts, outputs = zip(*requests, strict=True)
    return WeightLaw.from_lengths(prompts, outputs)


def enumerated(requests):
    """Every pair (request, age) as its weight: each is equally likely."""
    return np.array([prompt + age for prompt, output in requests for age in range(output)])


def simulated(law, *, seed=0, replicas=4, slots=3, trials=500, **options):
    generator = np.random.default_rng(seed)
    return stationary_imbalance(
        law, replicas=replicas, slots=slots, trials=trials, generator=generator, **options
    )


def exact_extremes(requests, *, replicas, slots):
    """E[max - mean] and E[max - min] of G loads from the convolved law of B weights."""
    single = np.bincount(enumerated(requests)) / len(enumerated(requests))
    load = np.array([1.0])
    for _ in range(slots):
        load = np.convolve(load, single)
    at_most = np.minimum(np.cumsum(load), 1.0)
    peak = (1 - at_most**replicas).sum()  # E[max] = sum_x P(max > x)
    low = ((1 - at_most) ** replicas).sum()  # E[min] = sum_x P(min > x)
    return peak - load @ np.arange(len(load)), peak - low


@given(requests=rows)
@settings(max_examples=80, deadline=None)
def test_the_law_counts_every_request_at_every_age(requests):
    law, weights = law_of(requests), enumerated(requests)
    written_out = np.concatenate(
        [
            np.repeat(np.arange(start, start + width), density)
            for start, width, density in zip(law.starts, law.widths, law.densities, strict=True)
        ]
    )
    assert written_out.tolist() == sorted(weights.tolist())
    assert law.pairs == len(weights)
    assert (law.densities >= 1).all()
    assert law.mean == pytest.approx(weights.mean(), rel=1e-12)
    assert law.variance == pytest.approx(weights.var(), rel=1e-9, abs=1e-9)


class _EveryPairOnce:
    """Stands in for a generator: deals the integers 0, 1, 2, .. in order."""

    def integers(self, high, *, size, dtype):
        assert np.prod(size) == high
        return np.arange(high, dtype=dtype).reshape(size)


@given(requests=rows)
@settings(max_examples=80, deadline=None)
def test_the_draw_maps_the_equally_likely_pairs_onto_all_weights(requests):
    law = law_of(requests)
    drawn = law.draw((law.pairs,), generator=_EveryPairOnce())
    assert drawn.tolist() == sorted(enumerated(requests).tolist())


def test_a_longer_output_is_met_more_often():
    # One step in 1001 meets the request of prompt 9000 and output 1.
    law = law_of([(1, 1000), (9000, 1)])
    drawn = law.draw((200_000,), generator=np.random.default_rng(1))
    share = (drawn == 9000).mean()
    assert share == pytest.approx(1 / 1001, abs=4 * (1 / 1001 / 200_000) ** 0.5)


def test_independent_prompts_and_outputs_give_the_variance_of_prompt_plus_that_of_age():
    prompts, outputs = (10, 70, 400), (3, 8, 50)
    law = law_of(list(itertools.product(prompts, outputs)))
    ages = np.concatenate([np.arange(output) for output in outputs])
    assert law.variance == pytest.approx(np.var(prompts) + ages.var(), rel=1e-12)
    assert load_sigma(law, slots=25) == pytest.approx(5 * law.variance**0.5, rel=1e-12)


def test_memory_does_not_grow_with_the_token_counts():
    law = WeightLaw.from_lengths([1, 2**31 - 1], [2**31 - 1, 2**31 - 1])
    assert len(law.starts) <= 3
    # Two discrete uniform laws of 2^31 - 1 weights, together 1 .. 2^32 - 3, each weight once or,
    # at 2^31 - 1, twice: the mean is 2^31 - 1.
    assert law.mean == pytest.approx(2**31 - 1, rel=1e-12)


@pytest.mark.parametrize("replicas", [2, 5, 16])
@pytest.mark.parametrize("slots", [1, 4])
def test_monte_carlo_agrees_with_the_exact_convolution(replicas, slots):
    requests = [(5, 9), (30, 2), (14, 25), (2, 1)]
    excess, spread = exact_extremes(requests, replicas=replicas, slots=slots)
    result = simulated(law_of(requests), replicas=replicas, slots=slots, trials=20_000)
    for estimate, exact in ((result.excess_tokens, excess), (result.spread_tokens, spread)):
        assert abs(estimate.mean - exact) < 4 * estimate.standard_error
        assert estimate.standard_error < 0.02 * exact


def test_two_trials_have_the_standard_error_of_two_values():
    law = law_of([(5, 9), (30, 2), (14, 25)])
    loads = law.draw((2, 4, 3), generator=np.random.default_rng(0)).sum(axis=2)
    spreads = loads.max(axis=1) - loads.min(axis=1)
    result = simulated(law, replicas=4, slots=3, trials=2)
    assert result.spread_tokens.mean == pytest.approx(spreads.mean(), rel=1e-12)
    # For two values sd = |a - b|/sqrt(2), so sd/sqrt(2) = |a - b|/2.
    assert result.spread_tokens.standard_error == pytest.approx(abs(np.diff(spreads)[0]) / 2)
    assert spreads[0] != spreads[1]


def test_the_standard_error_is_the_scatter_of_repeated_estimates():
    law = law_of([(5, 9), (30, 2), (14, 25)])
    results = [simulated(law, seed=seed, trials=200).excess_tokens for seed in range(200)]
    scatter = np.std([result.mean for result in results], ddof=1)
    # A standard deviation from 200 values has a relative error of 1/sqrt(400) = 5 %.
    assert np.mean([result.standard_error for result in results]) == pytest.approx(scatter, rel=0.2)


@given(requests=rows, chunk_draws=st.integers(1, 200))
@settings(max_examples=25, deadline=None)
def test_the_result_does_not_depend_on_the_chunks(requests, chunk_draws):
    law = law_of(requests)
    whole = simulated(law, trials=20)
    assert simulated(law, trials=20, chunk_draws=chunk_draws) == whole


@given(requests=rows, shift=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_longer_prompts_for_all_change_nothing(requests, shift):
    moved = [(prompt + shift, output) for prompt, output in requests]
    assert simulated(law_of(moved), trials=20) == simulated(law_of(requests), trials=20)


def test_without_growth_tokens_scale_the_excess():
    prompts = [3, 20, 7, 7, 90]
    once = simulated(law_of([(prompt, 1) for prompt in prompts]))
    tenfold = simulated(law_of([(10 * prompt, 1) for prompt in prompts]))
    assert tenfold.excess_tokens.mean == pytest.approx(10 * once.excess_tokens.mean, rel=1e-12)
    assert tenfold.spread_tokens.standard_error == pytest.approx(
        10 * once.spread_tokens.standard_error, rel=1e-12
    )


def test_one_replica_never_waits_and_two_wait_half_their_spread():
    law = law_of([(5, 9), (30, 2)])
    alone = simulated(law, replicas=1)
    assert (alone.excess_tokens.mean, alone.spread_tokens.mean) == (0.0, 0.0)
    pair = simulated(law, replicas=2)
    assert pair.spread_tokens.mean == pytest.approx(2 * pair.excess_tokens.mean, rel=1e-12)


def test_the_excess_grows_with_replicas_and_more_slowly_than_the_slots():
    law = law_of([(5, 9), (30, 2), (14, 25)])
    means = [simulated(law, replicas=g, trials=4000).excess_tokens.mean for g in (2, 4, 8, 16)]
    assert means == sorted(means)
    # sigma_L grows like sqrt(B): sixteen times the slots lose about four times the tokens.
    few, many = (simulated(law, slots=b, trials=4000).excess_tokens.mean for b in (8, 128))
    assert many / few == pytest.approx(4, rel=0.1)


def test_one_slot_without_growth_is_the_maximum_of_the_prompts_themselves():
    prompts = [3, 20, 7, 7, 90]
    result = simulated(law_of([(p, 1) for p in prompts]), replicas=3, slots=1, trials=20_000)
    exact = expected_max_sample(prompts, 3) - np.mean(prompts)
    assert abs(result.excess_tokens.mean - exact) < 4 * result.excess_tokens.standard_error


@pytest.mark.parametrize("replicas", [2, 8, 32])
def test_light_tails_follow_the_normal_maximum(replicas):
    generator = np.random.default_rng(7)
    prompts, outputs = generator.integers(100, 2000, 500), generator.integers(1, 600, 500)
    law = WeightLaw.from_lengths(prompts, outputs)
    estimate = simulated(law, replicas=replicas, slots=64, trials=3000).excess_tokens
    normal = light_tail_excess(law, replicas=replicas, slots=64)
    assert estimate.mean == pytest.approx(normal, abs=4 * estimate.standard_error, rel=0.01)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"replicas": 0}, "replicas"),
        ({"slots": 0}, "slots"),
        ({"trials": 1}, "trials"),
        ({"chunk_draws": 0}, "chunk_draws"),
    ],
)
def test_counts_out_of_range_are_named(options, field):
    with pytest.raises(InputError, match=rf"^{field}: expected an integer from"):
        simulated(law_of([(1, 1)]), **options)
