"""Where a number of the paper's tables is: workload, number of replicas, router."""

from brtheory.study.choices import BASELINE
from brtheory.study.grid.document import Value
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grids.paper_figures import PAPER
from brtheory.study.grids.settings import SETTING

REPLICAS = "replicas"
IMBALANCE, THROUGHPUT = "imbalance_mean_tokens", "throughput_tokens_per_s"
SLOTS = 72
"""B of the companion paper's simulator."""
GROWTH_ROUTERS = ("jsq", "br0", "brh:horizon=80", "window")
Key = tuple[str, int, str]
"""Workload, number of replicas, router."""


def labels_of(key: Key) -> dict[str, Value]:
    """Labels of a cell of the study."""
    setting, replicas, router = key
    return {SETTING: setting, REPLICAS: replicas, ROUTER: router}


def reported_ratio(key: Key, metric: str) -> float:
    """A reported figure as a ratio to JSQ's."""
    setting, replicas, _ = key
    top, bottom = PAPER[key], PAPER[setting, replicas, BASELINE]
    return float(getattr(top, metric) / getattr(bottom, metric))
