"""All grid studies by name, in the order in which RESULTS.md tells them."""

from collections.abc import Mapping

from brtheory.study.grid.study import View
from brtheory.study.grids.ablation import ABLATION
from brtheory.study.grids.energy import ENERGY
from brtheory.study.grids.heterogeneous import HETEROGENEOUS
from brtheory.study.grids.paper import PAPER_TABLES
from brtheory.study.grids.regimes import REGIMES
from brtheory.study.grids.robustness import ROBUSTNESS
from brtheory.study.grids.scaling import SCALING
from brtheory.study.grids.scenarios import SCENARIO_VIEW

VIEWS: Mapping[str, View] = {
    "scenarios": SCENARIO_VIEW,
    "regimes": REGIMES,
    "scaling": SCALING,
    "energy": ENERGY,
    "tables": PAPER_TABLES,
    "ablation": ABLATION,
    "robustness": ROBUSTNESS,
    "heterogeneous": HETEROGENEOUS,
}
