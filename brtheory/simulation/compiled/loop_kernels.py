"""The compiled loop: the four phases of a step until enough requests have completed."""

from brtheory.routers.backend import entry_kernel, kernel
from brtheory.simulation.compiled.admission_kernels import admit
from brtheory.simulation.compiled.phase_kernels import complete, jump, receive, run_steps
from brtheory.simulation.compiled.state_kernels import COMPLETED, RUNNING
from brtheory.simulation.compiled.world_kernels import Setup, Tick, World

GOING_ON, BEYOND, STUCK = range(3)
"""Answers: all well; the state is beyond the router's token limit; waiting on an idle cluster."""


@entry_kernel
def run_until(setup: Setup, world: World, tick: Tick, completed: int) -> int:
    """Run until ``completed`` requests have completed."""
    return _loop(setup, world, tick, completed)


@kernel
def _loop(setup: Setup, world: World, tick: Tick, completed: int) -> int:
    total, sums = len(world.requests.prompts), world.marks.sums
    while sums[COMPLETED] < completed:
        complete(setup, world, tick)
        receive(setup, world, tick)
        if not admit(setup, world, tick):
            return BEYOND
        if world.marks.counters[RUNNING] > 0:
            run_steps(setup, world, tick)
        elif sums[COMPLETED] < total and not jump(setup, world, tick):
            return STUCK
    return GOING_ON
