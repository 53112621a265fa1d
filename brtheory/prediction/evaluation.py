"""Evaluating a predictor on a run: online, in the order of time, scored on the later part only.

The predictor starts empty (or with a model) and lives through the whole run; answers given before
``warmup`` of the requests have finished are not scored. Nothing is shuffled.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from brtheory.errors import InputError
from brtheory.prediction.calibration import Scores, score
from brtheory.prediction.exact_match import ExactMatchPredictor
from brtheory.prediction.learned import DEFAULT_MOST_ROWS, LearnedPredictor
from brtheory.prediction.prequential import Answers, Timeline, play
from brtheory.prediction.protocol import Predictor
from brtheory.prediction.training import DEFAULT_SETTINGS, TrainingSettings, train
from brtheory.prediction.two_stage import TwoStageModel

DEFAULT_WARMUP = 0.5
Clock = Callable[[], float]


@dataclass(frozen=True)
class Evaluation:
    """Scores of a predictor on a run.

    Parameters
    ----------
    scores
        Of the answers given at step ``scored_from`` or later.
    scored_from
        First step at which ``warmup`` of the requests had finished.
    answers
        All answers, scored or not.
    """

    scores: Scores
    scored_from: int
    answers: Answers


def evaluate(
    timeline: Timeline,
    predictor: Predictor,
    *,
    horizon: int,
    warmup: float = DEFAULT_WARMUP,
    on_progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play a run and score the later answers.

    Parameters
    ----------
    timeline, predictor, horizon, on_progress
        As ``play``.
    warmup
        Share of the requests that finish before scoring begins, in [0, 1).

    Raises
    ------
    InputError
        If the horizon or the share is out of range.
    """
    scored_from = step_of_share(timeline, warmup)
    answers = play(timeline, predictor, horizon=horizon, on_progress=on_progress)
    later = answers.step >= scored_from
    remaining = timeline.output_tokens[answers.request] - answers.age
    scores = score(
        answers.p_finish[later],
        answers.mean_remaining[later],
        remaining=remaining[later],
        horizon=horizon,
    )
    return Evaluation(scores, scored_from, answers)


def train_on_start(
    timeline: Timeline,
    *,
    horizon: int,
    share: float,
    rng: np.random.Generator,
    settings: TrainingSettings = DEFAULT_SETTINGS,
    most_rows: int = DEFAULT_MOST_ROWS,
    on_progress: Callable[[int], None] | None = None,
) -> TwoStageModel:
    """Train a model on what is known when ``share`` of a run's requests have finished.

    Later rows, and labels that become known later, are not touched: ``evaluate`` with
    ``warmup=share`` then scores the model on a part it has not seen.

    Parameters
    ----------
    timeline, horizon, on_progress
        As ``play``.
    share
        In (0, 1).
    rng, settings
        As ``train``.
    most_rows
        The most recent training rows used, >= 1.

    Raises
    ------
    InputError
        If the share is out of range or there are too few rows.
    MissingExtraError
        If scikit-learn is not installed.
    """
    learner = LearnedPredictor(
        ExactMatchPredictor(timeline.prefix_of),
        horizon=horizon,
        rng=rng,
        retrain_every=len(timeline) + 1,  # never: its rows are wanted, not its models
        most_rows=most_rows,
    )
    until = step_of_share(timeline, share)
    play(timeline, learner, horizon=horizon, until=until, on_progress=on_progress)
    return train(learner.rows(), horizon=horizon, rng=rng, settings=settings)


def step_of_share(timeline: Timeline, share: float) -> int:
    """First step by which a share of the requests has finished.

    Raises
    ------
    InputError
        If the share is outside [0, 1).
    """
    if not 0 <= share < 1:
        raise InputError("share of the requests", "a number in [0, 1)", share)
    finishes = np.sort(timeline.finish_step)
    needed = int(np.ceil(share * len(finishes)))
    return int(finishes[needed - 1]) if needed else 0


def query_microseconds(
    timeline: Timeline,
    predictor: Predictor,
    answers: Answers,
    *,
    horizon: int,
    clock: Clock,
    queries: int = 1000,
) -> float | None:
    """Mean time of a query in microseconds, over answers spread evenly; None without answers.

    Parameters
    ----------
    timeline, predictor, answers, horizon
        As played.
    clock
        Seconds, e.g. ``time.perf_counter``.
    queries
        At most so many, >= 1.
    """
    if not len(answers):
        return None
    chosen = np.linspace(0, len(answers) - 1, min(queries, len(answers))).astype(int)
    asked = [
        (timeline.request(int(answers.request[i])), int(answers.age[i])) for i in chosen.tolist()
    ]
    start = clock()
    for request, age in asked:
        predictor.predict(request, age=age, horizon=horizon)
    return 1e6 * (clock() - start) / len(asked)
