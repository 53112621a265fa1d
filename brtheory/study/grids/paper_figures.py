"""Figures of the BalanceRoute paper, as reported: nothing here was measured by this project.

Source: arXiv:2605.06113 (DeepSeek-V3 on Ascend 910C; tables of the main comparison and of the
growth with G). The Azure trace is cut to outputs above 1000 tokens, as in the paper.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from brtheory.study.grid.document import Derived, Value

SOURCE = "as reported, arXiv:2605.06113"
PROPRIETARY, AZURE = "proprietary-surrogate", "azure-2024-long-output"
ORACLE_H80 = "brh:horizon=80"
SURVIVAL_H80 = "brh:horizon=80:predictor=survival"
EXACT_MATCH_H80 = "brh:horizon=80:predictor=exact-match"


@dataclass(frozen=True)
class PaperFigures:
    """One line of the paper's tables: tokens, seconds, tokens per second."""

    imbalance_mean_tokens: float
    tpot_p95_s: float
    throughput_tokens_per_s: float


PAPER: Mapping[tuple[str, int, str], PaperFigures] = {
    (PROPRIETARY, 8, "random"): PaperFigures(438_225, 0.0852, 811),
    (PROPRIETARY, 8, "round-robin"): PaperFigures(254_798, 0.0832, 847),
    (PROPRIETARY, 8, "p2c"): PaperFigures(262_940, 0.0840, 836),
    (PROPRIETARY, 8, "jsq"): PaperFigures(215_110, 0.0832, 843),
    (PROPRIETARY, 8, "br0"): PaperFigures(51_927, 0.0793, 943),
    (PROPRIETARY, 8, SURVIVAL_H80): PaperFigures(40_757, 0.0787, 979),
    (PROPRIETARY, 8, EXACT_MATCH_H80): PaperFigures(36_277, 0.0788, 977),
    (PROPRIETARY, 8, ORACLE_H80): PaperFigures(23_577, 0.0780, 1_029),
    (AZURE, 8, "random"): PaperFigures(146_564, 0.0903, 706),
    (AZURE, 8, "round-robin"): PaperFigures(110_049, 0.0891, 771),
    (AZURE, 8, "p2c"): PaperFigures(109_033, 0.0893, 794),
    (AZURE, 8, "jsq"): PaperFigures(104_737, 0.0893, 785),
    (AZURE, 8, "br0"): PaperFigures(54_051, 0.0833, 854),
    (AZURE, 8, SURVIVAL_H80): PaperFigures(44_010, 0.0821, 893),
    (AZURE, 8, EXACT_MATCH_H80): PaperFigures(38_496, 0.0823, 909),
    (AZURE, 8, ORACLE_H80): PaperFigures(35_301, 0.0773, 957),
    (PROPRIETARY, 4, "jsq"): PaperFigures(75_326, 0.06645, 365.4),
    (PROPRIETARY, 4, "br0"): PaperFigures(9_711, 0.06319, 407.1),
    (PROPRIETARY, 4, ORACLE_H80): PaperFigures(6_576, 0.06252, 415.3),
    (PROPRIETARY, 16, "jsq"): PaperFigures(675_607, 0.07740, 926.6),
    (PROPRIETARY, 16, "br0"): PaperFigures(215_170, 0.07492, 1_117.8),
    (PROPRIETARY, 16, ORACLE_H80): PaperFigures(117_067, 0.07204, 1_247.4),
}
"""By workload that stands for the paper's, number of replicas and router."""

UNITS = {
    "imbalance_mean_tokens": "tokens",
    "tpot_p95_s": "s",
    "throughput_tokens_per_s": "tokens/s",
}


def reported_numbers() -> Iterator[Derived]:
    """Every figure, marked as reported."""
    for (setting, replicas, router), figures in PAPER.items():
        labels: dict[str, Value] = {"setting": setting, "replicas": replicas, "router": router}
        for name, unit in UNITS.items():
            yield Derived(
                name=f"reported_{name}",
                labels=labels,
                value=getattr(figures, name),
                unit=unit,
                source=SOURCE,
            )
