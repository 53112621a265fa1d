"""What robustness studies do to a run: late loads, wrong counts, wrong predictions, drift.

Everything is drawn from the run's seed and depends on the request alone, not on the order of
questions: the same requests are misjudged in the same way under every router.

Prompts as the router sees them (mirrored loads and learned predictors included) are

    s' = max(1, round(s * token_bias * exp(token_noise*Z - token_noise^2/2))),   Z normal,

of mean s * token_bias. Drift d in [0, 1] changes the mixture over time and no request: a random
share d of the places in file order is filled with the requests found there, shortest output
first, so that at the time of the x-th place outputs follow (1 - d) * law + d * (its x-quantile).
"""

from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from brtheory.prediction.protocol import OnlinePredictor, Predictor
from brtheory.simulation.observation import Observation
from brtheory.simulation.wrong_predictor import (
    PredictionError,
    WrongOnlinePredictor,
    WrongPredictor,
)
from brtheory.traces.schema import Trace

LONGEST_DELAY = 1 << 20
LARGEST_NOISE = 10.0
SMALLEST_BIAS, LARGEST_BIAS = 1e-3, 1e3

Noise = Annotated[float, Field(ge=0, le=LARGEST_NOISE)]
Bias = Annotated[float, Field(ge=SMALLEST_BIAS, le=LARGEST_BIAS)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Perturbation:
    """What is wrong in a run; the defaults are nothing.

    Parameters
    ----------
    stale_steps
        Steps by which the router learns late of admissions, growth and completions.
    keeps_book
        Whether it counts its own placements and admissions since.
    token_noise, token_bias
        Spread (of the logarithm) and factor of prompts as the router sees them.
    prediction_noise, prediction_bias
        The same of the mean remaining steps a predictor answers.
    flip_rate
        Share of predictions whose verdict 'ends within H steps' is turned round.
    drift
        Share of the requests that come ordered by output length, shortest first.
    knows_speeds
        Where replicas differ in speed: whether the router knows; else it takes them to be alike.
    """

    stale_steps: Annotated[int, Field(ge=0, le=LONGEST_DELAY)] = 0
    keeps_book: bool = True
    token_noise: Noise = 0.0
    token_bias: Bias = 1.0
    prediction_noise: Noise = 0.0
    prediction_bias: Bias = 1.0
    flip_rate: Share = 0.0
    drift: Share = 0.0
    knows_speeds: bool = True


def observed(
    perturbation: Perturbation, prompt_tokens: NDArray[np.int64], rng: np.random.Generator
) -> Observation | None:
    """What the router sees; None where that is the truth."""
    prompts: NDArray[np.int64] | None = None
    if perturbation.token_noise > 0 or perturbation.token_bias != 1:
        prompts = _misjudged(perturbation, prompt_tokens, rng)
    if prompts is None and perturbation.stale_steps == 0 and perturbation.knows_speeds:
        return None
    return Observation(
        stale_steps=perturbation.stale_steps,
        keeps_book=perturbation.keeps_book,
        prompt_tokens=prompts,
        knows_speeds=perturbation.knows_speeds,
    )


def misled(
    perturbation: Perturbation, predictor: Predictor | None, *, seed: int
) -> Predictor | None:
    """The predictor with its errors; itself where there are none."""
    error = PredictionError(
        noise=perturbation.prediction_noise,
        bias=perturbation.prediction_bias,
        flip_rate=perturbation.flip_rate,
        seed=seed,
    )
    if predictor is None or error.is_none:
        return predictor
    if isinstance(predictor, OnlinePredictor):
        return WrongOnlinePredictor(predictor, error)
    return WrongPredictor(predictor, error)


def drifted(trace: Trace, perturbation: Perturbation, rng: np.random.Generator) -> Trace:
    """The trace with its mixture changing over time; arrival times stay where they are."""
    if perturbation.drift == 0:
        return trace
    size = round(perturbation.drift * len(trace))
    places = np.sort(rng.choice(len(trace), size=size, replace=False))
    order = np.arange(len(trace))
    order[places] = places[np.argsort(trace.output_tokens[places], kind="stable")]
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens[order],
        output_tokens=trace.output_tokens[order],
        prefix_id=None if trace.prefix_id is None else trace.prefix_id[order],
    )


def _misjudged(
    perturbation: Perturbation, prompt_tokens: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    sigma = perturbation.token_noise
    error = np.exp(sigma * rng.standard_normal(len(prompt_tokens)) - sigma**2 / 2)
    seen = np.rint(prompt_tokens * (perturbation.token_bias * error))
    return np.clip(seen, 1, 2**53).astype(np.int64)
