"""Published statistics of the workloads that can be generated: every number has its source here.

Nothing in this module is a fit or a guess. What is not published is None; what the generator does
in its place is said in `brtheory.traces.workloads`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PublishedTokens:
    """Published facts about one token count.

    Parameters
    ----------
    mean
        Tokens.
    percentiles
        Percent (0 to 100) to tokens.
    maximum
        Tokens, None if unpublished.
    """

    mean: float
    percentiles: Mapping[float, float] = field(default_factory=dict)
    maximum: int | None = None


@dataclass(frozen=True)
class Published:
    """Published facts about one trace.

    Parameters
    ----------
    title
        What it is.
    source
        Who published the numbers, with the licence of the data where known.
    prompt_tokens, output_tokens
        Facts about the two token counts.
    rows
        Number of requests, None if unpublished.
    span_s
        Seconds from the first to the last arrival, None if unpublished.
    interarrival_cv
        Standard deviation over mean of the gaps between arrivals, None if unpublished.
    correlation
        Pearson correlation of prompt and output tokens, None if unpublished.
    """

    title: str
    source: str
    prompt_tokens: PublishedTokens
    output_tokens: PublishedTokens
    rows: int | None = None
    span_s: float | None = None
    interarrival_cv: float | None = None
    correlation: float | None = None


AZURE_2023_CONV = Published(
    title="Azure LLM inference trace 2023, conversation",
    source="Azure/AzurePublicDataset (Splitwise, ISCA 2024; CC-BY-4.0)",
    prompt_tokens=PublishedTokens(
        mean=1154.7,
        percentiles={
            1: 29, 5: 181, 10: 207, 25: 396, 50: 1020, 75: 1189, 90: 2734, 95: 4083, 99: 4142,
        },
        maximum=14050,
    ),
    output_tokens=PublishedTokens(
        mean=211.1,
        percentiles={
            1: 16, 5: 41, 10: 54, 25: 85, 50: 129, 75: 395, 90: 424, 95: 451, 99: 601,
        },
        maximum=1000,
    ),
    rows=19_366,
    span_s=3501.7,
    interarrival_cv=1.094,
    correlation=-0.112,
)  # fmt: skip

AZURE_2023_CODE = Published(
    title="Azure LLM inference trace 2023, code",
    source="Azure/AzurePublicDataset (Splitwise, ISCA 2024; CC-BY-4.0)",
    prompt_tokens=PublishedTokens(
        mean=2047.8,
        percentiles={5: 75, 25: 578, 50: 1469, 75: 2744, 90: 5188, 99: 7436},
    ),
    output_tokens=PublishedTokens(
        mean=27.9,
        percentiles={5: 6, 25: 9, 50: 13, 75: 24, 90: 55, 99: 251},
        maximum=1899,
    ),
    rows=8_819,
    span_s=3435.9,
    interarrival_cv=13.2,
)

# The filter keeps rows with more than 1000 output tokens; most of them end at a token limit. The
# maxima are those of the whole 2024 conversation trace.
AZURE_2024_LONG_OUTPUT = Published(
    title="Azure LLM inference trace 2024, conversation, output > 1000",
    source="Azure/AzurePublicDataset (CC-BY-4.0), filtered as in arXiv:2605.06113",
    prompt_tokens=PublishedTokens(mean=4652, maximum=7999),
    output_tokens=PublishedTokens(mean=1052, maximum=1500),
    rows=10_000,
)
LONG_OUTPUT_THRESHOLD = 1000
LONG_OUTPUT_SPIKE = (1014, 1052)

PROPRIETARY = Published(
    title="Proprietary trace of the BalanceRoute paper",
    source="means: arXiv:2605.06113; spreads and correlation: its companion simulator's defaults",
    prompt_tokens=PublishedTokens(mean=3197),
    output_tokens=PublishedTokens(mean=1185),
    rows=8_000,
    correlation=-0.1,
)
PROPRIETARY_PROMPT_SD = 2600
PROPRIETARY_OUTPUT_SD = 700

MOONCAKE_CONVERSATION = Published(
    title="Mooncake conversation trace",
    source="kvcache-ai/Mooncake (FAST'25 release; Apache-2.0)",
    prompt_tokens=PublishedTokens(
        mean=12035,
        percentiles={5: 901, 25: 2306, 50: 6909, 75: 15367, 90: 27367, 99: 85400},
    ),
    output_tokens=PublishedTokens(
        mean=342.6,
        percentiles={5: 10, 25: 156, 50: 350, 75: 472, 90: 597, 99: 1119},
    ),
    rows=12_031,
    span_s=3537,
)

REASONING_R1 = Published(
    title="ServeGen deepseek-r1 (reasoning)",
    source="alibaba/ServeGen (arXiv:2505.09999; Apache-2.0)",
    prompt_tokens=PublishedTokens(mean=678, percentiles={50: 275, 95: 1864, 99: 12009}),
    output_tokens=PublishedTokens(
        mean=827,
        percentiles={5: 222, 25: 383, 50: 530, 75: 1093, 95: 1658, 99: 5253, 99.9: 18113},
    ),
)
