"""What an answer will say: lengths, words and ends, decided by the seed and the prompt alone."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.emulator.body import parse_call
from brtheory.emulator.call import Limits
from brtheory.emulator.plan import hidden_length, plan_sequences
from brtheory.emulator.tokens import BYTES_PER_TOKEN

LIMITS = Limits("emulated", 100_000)
PROMPT = "a prompt of more than sixteen bytes"


def plans(seed=0, mean_output=50.0, **body):
    body.setdefault("prompt", PROMPT)
    body.setdefault("max_tokens", 500)
    call = parse_call(json.dumps(body).encode(), chat=False, limits=LIMITS)
    return plan_sequences(call, seed=seed, mean_output=mean_output)


def plan(**options):
    (only,) = plans(**options)
    return only


def forced(tokens):
    return {"emulator_output_tokens": tokens}


def test_the_same_seed_and_prompt_give_the_same_answer():
    assert plan() == plan()
    assert plan().text(0, 20) == plan().text(0, 20)
    assert plan(seed=1).text(0, 20) != plan().text(0, 20)
    assert plan(prompt=PROMPT[::-1]).text(0, 20) != plan().text(0, 20)


@given(st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_pieces_of_an_answer_make_up_the_whole(start, length):
    answer = plan(vllm_xargs=forced(60))
    whole = answer.text(0, start) + answer.text(start, start + length)
    assert whole == answer.text(0, start + length)
    assert answer.token_ids(0, start + length)[start:] == answer.token_ids(start, start + length)


@given(st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_an_answer_prefilled_again_goes_on_where_it_was_cut(said):
    answer = plan(vllm_xargs=forced(60))
    again = plan(prompt=PROMPT + answer.text(0, said), vllm_xargs=forced(60))
    assert again.prompt.tokens == answer.prompt.tokens + said
    assert again.text(0, 60 - said) == answer.text(said, 60)


def test_choices_and_batches_are_numbered_and_differ():
    made = plans(prompt=[PROMPT, "Another " + PROMPT], n=2)
    assert [p.index for p in made] == [0, 1, 2, 3]
    assert len({p.text(0, 10) for p in made}) == 4
    assert [p.prompt.tokens for p in made] == [9, 9, 11, 11]


def test_hidden_lengths_are_geometric_with_the_configured_mean():
    prompts = [plan(prompt=f"{i} asks").prompt for i in range(3000)]
    lengths = np.array([hidden_length(p, 0, seed=3, mean_output=50.0) for p in prompts])
    assert lengths.min() >= 1
    # Geometric law of mean 50: standard deviation sqrt(50*49) = 49.5, of the mean of 3000 0.90,
    # and P(o > 50) = 0.98^50 = 0.3642 with standard deviation 0.0088; five of each.
    assert abs(lengths.mean() - 50) < 4.5
    assert abs((lengths > 50).mean() - 0.3642) < 0.044


def test_an_answer_ends_by_itself_or_by_its_limit():
    assert (plan(vllm_xargs=forced(7)).output_tokens, plan(vllm_xargs=forced(7)).finish_reason) == (
        7,
        "stop",
    )
    cut = plan(vllm_xargs=forced(7), max_tokens=6)
    assert (cut.output_tokens, cut.finish_reason) == (6, "length")
    endless = plan(vllm_xargs=forced(7), max_tokens=30, ignore_eos=True)
    assert (endless.output_tokens, endless.finish_reason) == (30, "length")


def test_min_tokens_keeps_an_answer_from_ending_before():
    assert plan(vllm_xargs=forced(2), min_tokens=5).output_tokens == 6
    capped = plan(vllm_xargs=forced(1), min_tokens=1, max_tokens=1)
    assert (capped.output_tokens, capped.finish_reason) == (1, "length")


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_ends_the_answer_and_is_hidden_unless_asked_for(include):
    whole = plan(vllm_xargs=forced(60)).text(0, 60)
    wanted = whole[10:17]
    first = whole.encode().find(wanted.encode())
    end = first + len(wanted.encode())
    stopped = plan(vllm_xargs=forced(60), stop=wanted, include_stop_str_in_output=include)
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", wanted)
    assert stopped.output_tokens == -(-end // BYTES_PER_TOKEN)
    shown = "".join(stopped.text(i, i + 1) for i in range(stopped.output_tokens))
    assert shown.encode() == whole.encode()[: end if include else first]


def test_a_stop_string_before_min_tokens_does_not_count():
    whole = plan(vllm_xargs=forced(60)).text(0, 60)
    wanted = whole[:8]
    assert plan(vllm_xargs=forced(60), stop=[wanted]).output_tokens == 2
    assert plan(vllm_xargs=forced(60), stop=[wanted], min_tokens=2).output_tokens == 60


def test_the_stop_that_comes_first_wins():
    whole = plan(vllm_xargs=forced(60)).text(0, 60)
    late, early = whole[100:108], whole[20:28]
    assert plan(vllm_xargs=forced(60), stop=[late, early]).stop_reason == early


def test_a_stop_token_ends_the_answer_with_its_id():
    ids = plan(vllm_xargs=forced(60)).token_ids(0, 60)
    token = ids[9]
    stopped = plan(vllm_xargs=forced(60), stop_token_ids=[token])
    assert (stopped.output_tokens, stopped.stop_reason) == (ids.index(token) + 1, token)


def test_log_probabilities_are_at_most_zero():
    answer = plan()
    assert all(answer.logprob(t, i) <= 0 for i, t in enumerate(answer.token_ids(0, 50)))
