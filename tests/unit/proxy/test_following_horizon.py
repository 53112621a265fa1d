"""The proxy's horizon follows the load, by the same completions as the simulator's."""

from typing import Any

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.prediction.auto_horizon import FIRST_HORIZON
from brtheory.prediction.projection_rules import ProjectionRules
from brtheory.prediction.survival import SurvivalPredictor
from brtheory.proxy.mirror import LoadMirror
from brtheory.proxy.projection import StreamProjection
from brtheory.proxy.ticker import RouterChoice
from brtheory.simulation.projection import ProjectionTracker
from tests.unit.proxy.desk import make_desk


class Follower:
    """A router that remembers the horizon it was last told."""

    def __init__(self) -> None:
        self.horizon = FIRST_HORIZON
        self.horizon_follows = True

    def look_ahead(self, horizon: int) -> None:
        self.horizon = horizon


@pytest.mark.parametrize("rules", [ProjectionRules(), ProjectionRules(gate=None, growth=False)])
def test_in_lockstep_proxy_and_simulator_project_alike(rules: ProjectionRules) -> None:
    names, mirror, follower = ["a", "b"], LoadMirror(), Follower()
    for name in names:
        mirror.add_replica(name, slots=20)
    proxy = StreamProjection(
        SurvivalPredictor(), names=names, horizon=FIRST_HORIZON, rules=rules, follows=True
    )
    simulator = ProjectionTracker(
        SurvivalPredictor(), replicas=2, horizon=FIRST_HORIZON, rules=rules, router=follower
    )
    rng, outputs, holds, horizons = np.random.default_rng(0), {}, {}, set()
    for step in range(300):
        for number in [n for n, hold in holds.items() if hold.age == outputs[n]]:
            hold = holds.pop(number)
            proxy.retire(hold, finished=True)
            mirror.release(hold)
            simulator.retire(number, step=step)
        proxy.rows()
        simulator.refit(step)
        if len(holds) < 12:
            number = len(outputs)
            outputs[number] = int(rng.integers(3, 40))
            replica, prompt = number % 2, int(rng.integers(1, 500))
            holds[number] = mirror.bind(Request(number, prompt), names[replica])
            proxy.admit(holds[number])
            simulator.admit(Request(number, prompt), replica, step=step)
        rows = proxy.rows()
        assert rows.tolist() == simulator.rows(step).tolist()
        assert rows.shape == (2, follower.horizon + 1)
        horizons.add(follower.horizon)
        for hold in holds.values():
            hold.grow(1)
    assert len(horizons) > 1


def test_the_ticker_goes_on_with_the_new_horizon() -> None:
    choice = RouterChoice("brh", {"horizon": "auto", "gate": None})
    desk, _ = make_desk(replicas=2, slots=4, choice=choice)
    ticker, live = desk.ticker, desk.fleet.live("decode")
    widths: set[int] = set()
    for number in range(80):
        hold: Any = desk.mirror.bind(Request(number, 50), live[number % 2])
        assert ticker._projection is not None
        ticker._projection.admit(hold)
        for _ in range(6):
            hold.grow(1)
            rows = ticker._rows(live)
        widths.add(len(rows[0]))
        ticker.release(hold, finished=True)
    # One at a time, 6 steps each, on two replicas: 12 steps between completions on one.
    assert widths == {FIRST_HORIZON + 1, 13}
    assert ticker._router.horizon == 12
    assert ticker.fallbacks == 0
