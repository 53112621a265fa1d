"""The emulator's step model, found again from what it emits."""

import numpy as np

from brtheory.analysis.step_time_fit import StepTimeFit, fit_step_time
from brtheory.emulator.group import DecodeGroup
from brtheory.emulator.step import DecodeRequest
from brtheory.simulation.workload import ClusterShape, StepTime

STEP_TIME = StepTime(a0=2.5e-7, b0=0.060)


def test_gaps_between_tokens_give_the_step_model_back():
    group = DecodeGroup(ClusterShape(2, 4), step_time=STEP_TIME)
    rng = np.random.default_rng(0)
    loads, ends, online, now_s = [], [0.0], StepTimeFit(), 0.0
    for number in range(120):
        if sum(group.active) < 8:
            prompt, output = int(rng.integers(1, 60_000)), int(rng.integers(1, 30))
            replica = int(np.argmin(group.active))
            group.submit(DecodeRequest(number, replica, prompt, output))
        step = group.begin_step(now_s)
        assert step is not None
        group.end_step()
        now_s = step.ends_s
        loads.append(step.peak)
        ends.append(now_s)
        online.observe(step.peak, now_s - ends[-2])
    # The clock is a sum: its last digit limits each gap to about 1e-15 s.
    for a0, b0 in (online.coefficients(), (fit_step_time(loads, np.diff(ends)).a0, None)):
        assert abs(a0.value / STEP_TIME.a0 - 1) < 1e-9
        if b0 is not None:
            assert abs(b0.value / STEP_TIME.b0 - 1) < 1e-9
