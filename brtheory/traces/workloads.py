"""Embedded workloads: synthetic traces calibrated to published statistics.

Rules: every number comes from `brtheory.traces.published`, or from the definition of a scenario in
`brtheory.traces.scenarios`; every calibration constant is solved.
Where a fact is unpublished: no correlation means independent prompts and outputs, no CV means
Poisson arrivals, no rate means 1 request per second (scale it as needed), no number of rows means
10,000 requests. The default size is the published number of rows, at most 12,000.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from brtheory.errors import InputError
from brtheory.traces.laws import (
    Law,
    maximum_entropy_law,
    quantile_law,
    spiked_law,
    tokens_of,
    truncated_normal_law,
)
from brtheory.traces.published import (
    AZURE_2023_CODE,
    AZURE_2023_CONV,
    AZURE_2024_LONG_OUTPUT,
    LONG_OUTPUT_SPIKE,
    LONG_OUTPUT_THRESHOLD,
    MOONCAKE_CONVERSATION,
    PROPRIETARY,
    PROPRIETARY_OUTPUT_SD,
    PROPRIETARY_PROMPT_SD,
    REASONING_R1,
    Published,
)
from brtheory.traces.sampling import (
    arrival_times,
    latent_correlation,
    stratified,
    stratified_pair,
)
from brtheory.traces.scenarios import SCENARIOS
from brtheory.traces.schema import Trace, check_requests

MOST_DEFAULT_REQUESTS = 12_000
DEFAULT_REQUESTS = 10_000
DEFAULT_RATE_PER_S = 1.0


@dataclass(frozen=True)
class Workload:
    """A workload that can be generated.

    Parameters
    ----------
    name
        As given on the command line.
    published
        The facts it is calibrated to.
    method
        How the token counts are drawn, in one line.
    laws
        Solves the laws of prompt and output tokens.
    """

    name: str
    published: Published
    method: str
    laws: Callable[[], tuple[Law, Law]]

    @property
    def requests(self) -> int:
        """Default number of requests."""
        return min(self.published.rows or DEFAULT_REQUESTS, MOST_DEFAULT_REQUESTS)

    @property
    def rate_per_s(self) -> float:
        """Arrival rate: gaps over span where both are published, else 1 per second."""
        facts = self.published
        if facts.rows is None or facts.span_s is None:
            return DEFAULT_RATE_PER_S
        return (facts.rows - 1) / facts.span_s


def workload_names() -> tuple[str, ...]:
    """Return the names `generate_workload` knows.

    Examples
    --------
    >>> "azure-2023-conv" in workload_names()
    True
    """
    return tuple(_WORKLOADS)


def find_workload(name: str) -> Workload:
    """Return a workload by name; an unknown name raises InputError."""
    if name not in _WORKLOADS:
        raise InputError("workload", f"one of {', '.join(_WORKLOADS)}", name)
    return _WORKLOADS[name]


def generate_workload(name: str, *, requests: int | None = None, seed: int = 0) -> Trace:
    """Generate a workload; the same name, number and seed give the same trace.

    Parameters
    ----------
    name
        One of `workload_names`.
    requests
        Number of requests (>= 1); None for the workload's own size.
    seed
        Seed of the numpy generator (>= 0).

    Raises
    ------
    InputError
        If the name is unknown or a number is out of range.

    Examples
    --------
    >>> trace = generate_workload("proprietary-surrogate", requests=100)
    >>> len(trace), trace.synthetic
    (100, True)
    """
    workload = find_workload(name)
    count = workload.requests if requests is None else requests
    check_requests(count)
    if seed < 0:
        raise InputError("seed", "a whole number >= 0", seed)
    random = np.random.default_rng(seed)
    prompt_law, output_law, latent = _solved(name)
    if latent is None:
        prompts, outputs = stratified(count, random), stratified(count, random)
    else:
        prompts, outputs = stratified_pair(count, latent, random)
    cv = workload.published.interarrival_cv or 1.0
    return Trace(
        name=name,
        source=f"synthetic, calibrated to: {workload.published.title}, {workload.published.source}",
        synthetic=True,
        arrival_s=arrival_times(count, rate=workload.rate_per_s, cv=cv, random=random),
        prompt_tokens=tokens_of(prompt_law, prompts),
        output_tokens=tokens_of(output_law, outputs),
    )


def published_statistics(name: str) -> dict[str, float]:
    """Return the published figures of a workload under the names `describe` uses.

    Keys are ``rows``, ``time_span_s``, ``interarrival_cv``, ``correlation`` and
    ``prompt_tokens.p50`` and the like; unpublished ones are absent.
    """
    facts = find_workload(name).published
    figures: dict[str, float | None] = {
        "rows": facts.rows,
        "time_span_s": facts.span_s,
        "interarrival_cv": facts.interarrival_cv,
        "correlation": facts.correlation,
    }
    for column in ("prompt_tokens", "output_tokens"):
        tokens = getattr(facts, column)
        for percent, value in tokens.percentiles.items():
            figures[f"{column}.p{percent:g}"] = value
        figures[f"{column}.max"] = tokens.maximum
        figures[f"{column}.mean"] = tokens.mean
    return {key: value for key, value in figures.items() if value is not None}


@cache
def _solved(name: str) -> tuple[Law, Law, float | None]:
    workload = _WORKLOADS[name]
    prompt_law, output_law = workload.laws()
    correlation = workload.published.correlation
    if correlation is None:
        return prompt_law, output_law, None
    return (
        prompt_law,
        output_law,
        latent_correlation(prompt_law, output_law, correlation=correlation),
    )


def _through_percentiles(facts: Published) -> Callable[[], tuple[Law, Law]]:
    return lambda: (quantile_law(facts.prompt_tokens), quantile_law(facts.output_tokens))


def _long_output_laws() -> tuple[Law, Law]:
    facts = AZURE_2024_LONG_OUTPUT
    prompt_maximum, output_maximum = facts.prompt_tokens.maximum, facts.output_tokens.maximum
    if prompt_maximum is None or output_maximum is None:
        raise InputError("azure-2024-long-output", "published maxima", None)
    prompts = maximum_entropy_law(mean=facts.prompt_tokens.mean, maximum=prompt_maximum)
    outputs = spiked_law(
        mean=facts.output_tokens.mean,
        low=LONG_OUTPUT_THRESHOLD + 1,
        high=output_maximum,
        spike=LONG_OUTPUT_SPIKE,
    )
    return prompts, outputs


def _proprietary_laws() -> tuple[Law, Law]:
    return (
        truncated_normal_law(mean=PROPRIETARY.prompt_tokens.mean, sd=PROPRIETARY_PROMPT_SD),
        truncated_normal_law(mean=PROPRIETARY.output_tokens.mean, sd=PROPRIETARY_OUTPUT_SD),
    )


_SCENARIO_METHOD = "independent lognormals; prompts clipped to 16..64,000 tokens"
_QUANTILES = "through the published percentiles, log-linear, bent to the published mean"
_WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "azure-2023-conv", AZURE_2023_CONV, _QUANTILES, _through_percentiles(AZURE_2023_CONV)
        ),
        Workload(
            "azure-2023-code", AZURE_2023_CODE, _QUANTILES, _through_percentiles(AZURE_2023_CODE)
        ),
        Workload(
            "azure-2024-long-output",
            AZURE_2024_LONG_OUTPUT,
            "prompts: largest entropy with the published mean and maximum; outputs: above the "
            "filter, with a spike at the token limit that makes the published mean",
            _long_output_laws,
        ),
        Workload(
            "proprietary-surrogate",
            PROPRIETARY,
            "normals truncated at 0 whose means after truncation are the published ones",
            _proprietary_laws,
        ),
        Workload(
            "mooncake-conversation",
            MOONCAKE_CONVERSATION,
            _QUANTILES,
            _through_percentiles(MOONCAKE_CONVERSATION),
        ),
        Workload("reasoning-r1", REASONING_R1, _QUANTILES, _through_percentiles(REASONING_R1)),
        *(
            Workload(scenario.name, scenario.facts(), _SCENARIO_METHOD, scenario.laws)
            for scenario in SCENARIOS.values()
        ),
    )
}
