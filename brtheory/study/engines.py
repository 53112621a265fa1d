"""Which engine a study runs on: all give the same numbers, compiled kernels cost a minute once.

Compiling takes about ``COMPILE_S`` of one core, once for each version of the kernels; afterwards a
run takes hundredths of a second. So a study compiles where that is done already, or where its runs
would take longer on each of the processes.
"""

from brtheory.routers.backend import Backend, compiled_available, kernels_cached

COMPILE_S = 60.0


def choose_engine(seconds: float, *, workers: int, cached: bool, available: bool) -> Backend:
    """Engine for runs that take ``seconds`` in all on the numpy engine.

    Parameters
    ----------
    seconds
        Estimated effort, >= 0.
    workers
        Processes that share it, >= 1.
    cached, available
        Whether the kernels are compiled already, and whether they can be.
    """
    if available and (cached or seconds / workers > COMPILE_S):
        return "compiled"
    return "numpy"


def engine_for(seconds: float, *, workers: int) -> Backend:
    """Engine for runs that take ``seconds`` in all on the numpy engine, on this machine now."""
    return choose_engine(
        seconds, workers=workers, cached=kernels_cached(), available=compiled_available()
    )
