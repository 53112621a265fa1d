"""Exact match: prompts seen before answer for themselves, within bounded memory."""

import pytest

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.protocol import ANCHOR, OnlinePredictor, Running


def request(index):
    return Request(index, prompt_tokens=10)


class Prompts:
    """Prefixes by request id, None for the others."""

    def __init__(self):
        self.prefixes = {}
        self.next = 0

    def __call__(self, request):
        return self.prefixes.get(request.id)

    def admit(self, predictor, prefix):
        index, self.next = self.next, self.next + 1
        if prefix is not None:
            self.prefixes[index] = prefix
        predictor.observe_admitted(request(index))
        return request(index)

    def teach(self, predictor, prefix, *outputs):
        for output in outputs:
            one = self.admit(predictor, prefix)
            predictor.observe_finished(one, output_tokens=output)
        predictor.refit([])
        return one


@pytest.fixture
def prompts():
    return Prompts()


def test_it_is_an_online_predictor(prompts):
    assert isinstance(ExactMatchPredictor(prompts), OnlinePredictor)


def test_a_known_prompt_answers_from_its_own_law(prompts):
    predictor = ExactMatchPredictor(prompts, least_finished=2)
    short = prompts.teach(predictor, 1, 5, 7)
    long = prompts.teach(predictor, 2, 900, 900)
    answer = predictor.predict(short, age=0, horizon=10)
    assert (answer.p_finish, answer.mean_remaining) == (1.0, 6.0)
    assert predictor.predict(long, age=0, horizon=10) == ANCHOR


def test_a_miss_a_young_prompt_and_an_age_beyond_the_law_fall_back_to_survival(prompts):
    predictor = ExactMatchPredictor(prompts, least_finished=2)
    known = prompts.teach(predictor, 1, 5, 5)
    young = prompts.teach(predictor, 2, 9)
    without = prompts.admit(predictor, None)
    # Survival has seen 5, 5 and 9.
    for one in (young, without):
        assert predictor.predict(one, age=0, horizon=5).p_finish == pytest.approx(2 / 3)
    assert predictor.predict(known, age=0, horizon=5).p_finish == 1.0
    assert predictor.predict(known, age=5, horizon=5).mean_remaining == pytest.approx(4.0)


def test_running_requests_of_a_prompt_are_censored_at_their_age(prompts):
    predictor = ExactMatchPredictor(prompts, least_finished=1)
    running = prompts.admit(predictor, 1)
    one = prompts.admit(predictor, 1)
    predictor.observe_finished(one, output_tokens=5)
    predictor.refit([Running(running, 30)])
    assert predictor.predict(one, age=0, horizon=10).p_finish == 0.5


def test_a_cancelled_request_counts_in_the_law_of_its_prompt(prompts):
    predictor = ExactMatchPredictor(prompts, least_finished=1)
    one, other = prompts.admit(predictor, 1), prompts.admit(predictor, 1)
    predictor.observe_cancelled(one, output_tokens=20)
    predictor.observe_finished(other, output_tokens=5)
    predictor.refit([])
    assert predictor.predict(one, age=0, horizon=10).p_finish == 0.5


def test_the_least_recently_admitted_prompt_is_forgotten(prompts):
    predictor = ExactMatchPredictor(prompts, prefixes=2, least_finished=1)
    first = prompts.teach(predictor, 1, 5)
    second = prompts.teach(predictor, 2, 6)
    prompts.teach(predictor, 1, 5)
    prompts.teach(predictor, 3, 7)
    assert len(predictor) == 2
    assert predictor.law_of(second) is None
    assert predictor.law_of(first) is not None


def test_a_prompt_forgotten_between_an_end_and_the_refit_does_no_harm(prompts):
    predictor = ExactMatchPredictor(prompts, prefixes=1, least_finished=1)
    one, still = prompts.admit(predictor, 1), prompts.admit(predictor, 1)
    predictor.observe_finished(one, output_tokens=5)
    prompts.admit(predictor, 2)
    predictor.observe_finished(still, output_tokens=8)
    predictor.refit([])
    assert predictor.law_of(one) is None
    # Survival, which heard of both, answers for it.
    assert predictor.predict(one, age=0, horizon=6).p_finish == 0.5


def test_memory_is_bounded_whatever_comes(prompts):
    predictor = ExactMatchPredictor(prompts, prefixes=8, prefix_window=4, least_finished=1)
    for prefix in range(100):
        one = prompts.teach(predictor, prefix, *range(1, 31))
        assert len(predictor) <= 8
    # One runs at a time, which allows for eight: the last of the outputs 1..30.
    assert predictor.law_of(one).support.tolist() == list(range(23, 31))


@pytest.mark.parametrize("name", ["prefixes", "prefix_window", "least_finished"])
def test_sizes_below_one_are_refused(prompts, name):
    with pytest.raises(InputError, match=name):
        ExactMatchPredictor(prompts, **{name: 0})
