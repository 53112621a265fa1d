"""The four router scenarios s1 .. s4: token laws, and the cluster they are meant for, as data.

Each makes one thing hard: s1 long and widely spread prompts, s2 long outputs on many slots, s3 long
outputs on few slots, s4 short outputs on very many slots. Prompts and outputs are independent
lognormals; prompts are clipped to 16 .. 64,000 tokens and their means are those before clipping.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from brtheory.traces.laws import Law
from brtheory.traces.published import Published, PublishedTokens

PROMPT_RANGE = (16, 64_000)
LONG_OUTPUT_RANGE = (1000, 16_000)
"""Long outputs are conditioned on more than the first and capped at the second."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A scenario: laws of the token counts, and the cluster and step time recommended for it.

    Parameters
    ----------
    name
        Name of the workload.
    prompt_mean, prompt_sigma
        Mean in tokens before clipping, and standard deviation of the logarithm.
    output_median, output_sigma
        Median in tokens before conditioning, and standard deviation of the logarithm.
    long_outputs
        Whether outputs are conditioned on ``LONG_OUTPUT_RANGE``.
    slots, replicas
        B and G.
    a0, b0
        Step time b0 + a0*M, in seconds per token and seconds.
    requests
        Requests of a run in a comparison.
    """

    name: str
    prompt_mean: float
    prompt_sigma: float
    output_median: float
    output_sigma: float
    long_outputs: bool
    slots: int
    replicas: int = 8
    a0: float = 2.5e-7
    b0: float = 0.060
    requests: int = 30_000

    @property
    def prompt_median(self) -> float:
        """Median of the prompts in tokens: mean = median * exp(sigma^2 / 2)."""
        return float(self.prompt_mean * np.exp(-(self.prompt_sigma**2) / 2))

    def laws(self) -> tuple[Law, Law]:
        """Laws of prompt and output tokens."""
        low, high = PROMPT_RANGE
        prompts = _lognormal_law(self.prompt_median, self.prompt_sigma)
        if self.long_outputs:
            outputs = _long_law(self.output_median, self.output_sigma)
        else:
            outputs = _lognormal_law(self.output_median, self.output_sigma)
        return lambda probabilities: np.clip(prompts(probabilities), low, high), outputs

    def facts(self) -> Published:
        """Means and medians that follow from the definition, in the form of published ones."""
        low, high = PROMPT_RANGE
        prompt_mean = _clipped_mean(self.prompt_median, self.prompt_sigma, low=low, high=high)
        return Published(
            title=f"router scenario {self.name}",
            source="lognormal laws defined by this project",
            prompt_tokens=PublishedTokens(mean=prompt_mean, percentiles={50: self.prompt_median}),
            output_tokens=self._output_facts(),
        )

    def _output_facts(self) -> PublishedTokens:
        median, sigma = self.output_median, self.output_sigma
        if not self.long_outputs:
            mean = float(median * np.exp(sigma**2 / 2))
            return PublishedTokens(mean=mean, percentiles={50: median})
        low, high = _first_long(), float(LONG_OUTPUT_RANGE[1])
        shorter = float(ndtr(np.log(low / median) / sigma))
        # E[min(X, high); X > low] / P(X > low), the clipped mean without its mass at low.
        clipped = _clipped_mean(median, sigma, low=low, high=high)
        mean = (clipped - low * shorter) / (1 - shorter)
        half = float(_long_law(median, sigma)(np.array([0.5]))[0])
        return PublishedTokens(mean=mean, percentiles={50: half})


def _lognormal_law(median: float, sigma: float) -> Law:
    return lambda probabilities: median * np.exp(sigma * ndtri(probabilities))


def _long_law(median: float, sigma: float) -> Law:
    kept = ndtr(-np.log(_first_long() / median) / sigma)

    def law(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        # From the upper side, where kept*(1 - u) keeps its digits.
        tokens: NDArray[np.float64] = median * np.exp(-sigma * ndtri(kept * (1 - probabilities)))
        return np.minimum(tokens, LONG_OUTPUT_RANGE[1])

    return law


def _first_long() -> float:
    """The real number from which on rounded tokens exceed the bound."""
    return LONG_OUTPUT_RANGE[0] + 0.5


def _clipped_mean(median: float, sigma: float, *, low: float, high: float) -> float:
    """Mean of a lognormal clipped to low .. high."""
    lower, upper = (np.log(bound / median) / sigma for bound in (low, high))
    inside = ndtr(upper - sigma) - ndtr(lower - sigma)
    mean = median * np.exp(sigma**2 / 2) * inside
    return float(mean + low * ndtr(lower) + high * ndtr(-upper))


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="s1",
            prompt_mean=10_000,
            prompt_sigma=1.0,
            output_median=400,
            output_sigma=0.8,
            long_outputs=False,
            slots=32,
        ),
        Scenario(
            name="s2",
            prompt_mean=2_000,
            prompt_sigma=1.0,
            output_median=1_300,
            output_sigma=0.6,
            long_outputs=True,
            slots=32,
        ),
        Scenario(
            name="s3",
            prompt_mean=10_000,
            prompt_sigma=0.6,
            output_median=1_300,
            output_sigma=0.6,
            long_outputs=True,
            slots=10,
        ),
        Scenario(
            name="s4",
            prompt_mean=2_000,
            prompt_sigma=1.0,
            output_median=150,
            output_sigma=0.8,
            long_outputs=False,
            slots=64,
        ),
    )
}
"""The scenarios by name."""
