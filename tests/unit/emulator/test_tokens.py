"""The emulated tokenizer: four bytes a token, consistently in both directions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.emulator.noise import mix, unit
from brtheory.emulator.tokens import WORDS, count_tokens, detokenize, token_ids

words = st.lists(st.integers(0, len(WORDS) - 1), max_size=30)


def test_every_word_has_four_bytes_and_is_there_once():
    assert {len(word.encode()) for word in WORDS} == {4}
    assert len(set(WORDS)) == len(WORDS)
    assert any(len(word) < 4 for word in WORDS), "some characters take several bytes"


@given(words)
@settings(deadline=None)
def test_what_was_emitted_tokenizes_to_itself(ids):
    assert token_ids(detokenize(ids)) == ids


@given(st.text(min_size=1), words)
@settings(deadline=None)
def test_a_prompt_with_its_answer_so_far_weighs_their_sum(prompt, ids):
    assert count_tokens(prompt + detokenize(ids)) == count_tokens(prompt) + len(ids)


@given(st.text(max_size=40))
@settings(deadline=None)
def test_the_count_is_the_number_of_ids_and_never_below_one(text):
    assert count_tokens(text) == max(1, len(token_ids(text)))


def test_draws_are_uniform_and_depend_on_every_part():
    draws = [unit(seed, i) for seed in range(4) for i in range(1000)]
    assert len(set(draws)) == len(draws)
    # Mean of 4000 uniforms: 1/2 with standard deviation 1/sqrt(12*4000) = 0.0046; five of them.
    assert abs(sum(draws) / len(draws) - 0.5) < 0.023
    assert mix(1, 2) != mix(2, 1)
