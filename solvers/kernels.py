"""The fastest installed kernel of the dynamic program; all are equal state by state."""

from functools import cache
from importlib.util import find_spec

from solvers.partitions import Kernel, NumpyKernel


@cache
def best_kernel() -> Kernel:
    """The compiled kernel where numba is installed (extra ``fast``), else the NumPy reference."""
    if find_spec("numba") is None:
        return NumpyKernel()
    from solvers.partitions_compiled import (  # noqa: PLC0415  # numba takes long to import
        CompiledKernel,
    )

    return CompiledKernel()
