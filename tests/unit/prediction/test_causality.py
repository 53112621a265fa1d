"""No future leaks: honest predictors pass, every planted leak is caught, calls keep their order."""

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.causality import find_leak, other_future
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.length_law import kaplan_meier
from brtheory.prediction.oracle import OraclePredictor
from brtheory.prediction.prequential import Timeline, play
from brtheory.prediction.protocol import Prediction
from brtheory.prediction.survival import SurvivalPredictor
from tests.unit.prediction.recorder import Recorder

NO_ONE = np.array([], dtype=np.int64)


@pytest.fixture
def timeline():
    """Three hundred requests of a few prompts, about forty at a time."""
    rng = np.random.default_rng(3)
    return Timeline(
        prompt_tokens=rng.integers(1, 100, size=300),
        output_tokens=rng.integers(1, 80, size=300),
        admitted_step=np.arange(300, dtype=np.int64),
        prefix_id=rng.integers(-1, 5, size=300),
    )


def leak_of(make, timeline):
    return find_leak(make, timeline, horizon=10, rng=np.random.default_rng(4))


def test_survival_and_exact_match_know_only_the_past(timeline):
    assert leak_of(lambda _run: SurvivalPredictor(refit_every=4), timeline) is None
    assert leak_of(lambda run: ExactMatchPredictor(run.prefix_of), timeline) is None


def test_the_oracle_is_caught(timeline):
    leak = leak_of(lambda run: OraclePredictor(dict(enumerate(run.output_tokens))), timeline)
    assert leak.step <= leak.cut
    assert timeline.finish_step[leak.request] > leak.cut
    assert f"request {leak.request} at step {leak.step}" in str(leak)


class TrainedOnEverything(SurvivalPredictor):
    """Its law comes from all rows of the run, those of the future among them."""

    def __init__(self, run):
        super().__init__()
        self._law = kaplan_meier(run.output_tokens, NO_ONE)

    def refit(self, running):
        """Keep the law."""


class PrefixMeanOverTheRun(SurvivalPredictor):
    """Honest but for one feature: the mean output of the prompt over the whole run."""

    def __init__(self, run):
        super().__init__()
        self._run = run

    def predict(self, request, *, age, horizon):
        same = self._run.prefix_id == self._run.prefix_id[request.id]
        mean = self._run.output_tokens[same].mean()
        honest = super().predict(request, age=age, horizon=horizon)
        return Prediction(honest.p_finish, mean if honest.p_finish else None)


class NextPrompt(SurvivalPredictor):
    """Looks at the prompt of the request that will be admitted next."""

    def __init__(self, run):
        super().__init__()
        self._run = run

    def predict(self, request, *, age, horizon):
        following = min(request.id + 1, len(self._run) - 1)
        return Prediction(1 / (1 + self._run.prompt_tokens[following]), 1.0)


@pytest.mark.parametrize("make", [TrainedOnEverything, PrefixMeanOverTheRun, NextPrompt])
def test_planted_leaks_are_caught(make, timeline):
    assert leak_of(make, timeline) is not None


def test_twins_share_every_event_up_to_the_cut_and_nothing_unfinished(timeline):
    twin = other_future(timeline, after=150, rng=np.random.default_rng(5))
    known = timeline.finish_step <= 150
    assert (twin.output_tokens[known] == timeline.output_tokens[known]).all()
    assert (twin.finish_step[~known] > 150).all()
    assert (twin.output_tokens[~known] != timeline.output_tokens[~known]).mean() > 0.9
    admitted = timeline.admitted_step <= 150
    assert (twin.prompt_tokens[admitted] == timeline.prompt_tokens[admitted]).all()


def test_a_play_makes_the_calls_of_the_contract_in_their_order():
    # Request 0 runs in steps 0..2, request 1 in steps 0..4; request 2 takes 0's place at step 3,
    # where request 1 (age 3) is not due for a prediction: it was at 0 and 2, and will be at 4.
    run = Timeline(np.array([5, 6, 7]), np.array([3, 5, 1]), np.array([0, 0, 3]))
    recorder = Recorder()
    play(run, recorder, horizon=4)
    assert [call[:3] for call in recorder.calls] == [
        ("admitted", 0),
        ("predict", 0, 0),
        ("admitted", 1),
        ("predict", 1, 0),
        ("predict", 0, 2),
        ("predict", 1, 2),
        ("finished", 0, 3),
        ("refit", [(1, 3)]),
        ("admitted", 2),
        ("predict", 2, 0),
        ("finished", 2, 1),
        ("refit", [(1, 4)]),
        ("predict", 1, 4),
        ("finished", 1, 5),
        ("refit", []),
    ]


def test_a_play_stops_where_it_is_told(timeline):
    answers = play(timeline, SurvivalPredictor(), horizon=10, until=100)
    assert answers.step.max() == 100


def test_progress_counts_every_request(timeline):
    finished = []
    play(timeline, SurvivalPredictor(), horizon=10, on_progress=finished.append)
    assert sum(finished) == 300


def test_the_prefix_of_a_row_without_one_is_none(timeline):
    rows = [Request(i, 1) for i in range(300)]
    prefixes = [timeline.prefix_of(row) for row in rows]
    assert prefixes == [None if p == -1 else p for p in timeline.prefix_id.tolist()]
    assert Timeline(*[np.array([1])] * 3).prefix_of(rows[0]) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [("prompt_tokens", [0]), ("output_tokens", [0]), ("admitted_step", [-1]), ("prefix_id", [])],
)
def test_a_timeline_out_of_range_is_refused(column, value):
    columns = {name: np.array([1]) for name in ("prompt_tokens", "output_tokens", "admitted_step")}
    with pytest.raises(InputError, match=column):
        Timeline(**(columns | {column: np.array(value, dtype=np.int64)}))


def test_horizons_refreshes_and_cuts_below_one_are_refused(timeline):
    with pytest.raises(InputError, match="horizon"):
        play(timeline, SurvivalPredictor(), horizon=0)
    with pytest.raises(InputError, match="refresh"):
        play(timeline, SurvivalPredictor(), horizon=4, refresh=0)
    with pytest.raises(InputError, match="cuts"):
        find_leak(
            lambda _run: SurvivalPredictor(),
            timeline,
            horizon=4,
            rng=np.random.default_rng(0),
            cuts=0,
        )
