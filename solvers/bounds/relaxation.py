"""The float LP of one window, whose duals are the multipliers of a certificate's leaf.

Requests that start or end inside are split freely over the replicas unless a label fixes them; the
background is split in a few bundles of requests of similar weight:

    min sum_j M_j    M_j >= sum_i w_ij x_ig + sum_b W_bj x_bg  for all g, j,    sum_g x_.g = 1.

Nothing here needs to be exact: whatever multipliers come out, ``solvers.certificate`` evaluates
them in integers. One HiGHS model serves a whole tree, since labels only change column bounds and
the last basis stays dual feasible.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brtheory.errors import BrtheoryError, MissingExtraError
from solvers.certificate import Window

BUNDLES = 4
"""Bundles of the background; more sharpen the multipliers little and cost time."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Relaxed:
    """An optimum of the LP under some labels.

    Parameters
    ----------
    value
        Estimate of the bound in token-steps.
    shares
        x of the requests inside, shape (requests inside, G), 0 .. 1.
    multipliers
        Duals y >= 0, shape (G, segments), summing to about 1 over the replicas.
    """

    value: float
    shares: FloatArray
    multipliers: FloatArray


class WindowRelaxation:
    """The LP of one window, solved again and again under different labels.

    Parameters
    ----------
    window
        What the window sees.
    replicas
        G.

    Raises
    ------
    MissingExtraError
        If HiGHS is not installed.
    """

    def __init__(self, window: Window, *, replicas: int) -> None:
        self.requests = list(window.inside)
        self.work = request_work(window)
        self.solved = 0
        self._replicas = replicas
        self._segments = len(window.lengths)
        bundles = background_work(window)
        self.work_bound = float(self.work.sum() + bundles.sum()) / replicas
        self._unit = self.work_bound
        self._items = np.vstack([self.work, bundles]) / self._unit
        self._fixed: dict[int, int] = {}
        self._highs = _model(self._items, replicas=replicas)

    def solve(self, labels: Mapping[int, int]) -> Relaxed | None:
        """Solve with request (by position in ``requests``) -> replica fixed; None if HiGHS fails.

        A failure is no error: the caller has valid multipliers without the LP.
        """
        self._fix(labels)
        self.solved += 1
        self._highs.run()
        status = self._highs.getModelStatus()
        if status != type(status).kOptimal:
            self._highs.clearSolver()
            return None
        solution = self._highs.getSolution()
        segments, replicas, inside = self._segments, self._replicas, len(self.requests)
        shares = np.asarray(solution.col_value[segments : segments + inside * replicas])
        duals = np.asarray(solution.row_dual[: replicas * segments])
        return Relaxed(
            value=self._highs.getInfo().objective_function_value * self._unit,
            shares=shares.reshape(inside, replicas),
            multipliers=np.maximum(duals.reshape(replicas, segments), 0.0),
        )

    def _fix(self, labels: Mapping[int, int]) -> None:
        columns, lower, upper = [], [], []
        for request in range(len(self.requests)):
            label = labels.get(request)
            if label == self._fixed.get(request):
                continue
            for g in range(self._replicas):
                columns.append(self._segments + request * self._replicas + g)
                lower.append(float(label == g))
                upper.append(float(label is None or label == g))
        self._fixed = dict(labels)
        if columns:
            self._highs.changeColsBounds(
                len(columns), np.array(columns, dtype=np.int32), np.array(lower), np.array(upper)
            )


def request_work(window: Window) -> FloatArray:
    """Token-steps of each request inside on each segment, shape (requests inside, segments)."""
    work = np.zeros((len(window.inside), len(window.lengths)))
    lengths, ages = np.array(window.lengths, float), np.array(window.ages, float)
    for row, (first, last, weight) in zip(work, window.inside.values(), strict=True):
        row[first:last] = weight * lengths[first:last] + ages[first:last]
    return work


def background_work(window: Window) -> FloatArray:
    """Token-steps of each bundle of the background on each segment, shape (bundles, segments)."""
    lengths, ages = np.array(window.lengths, float), np.array(window.ages, float)
    bundles = [b for b in np.array_split(np.array(window.background, float), BUNDLES) if len(b)]
    if not bundles:
        return np.zeros((0, len(lengths)))
    return np.vstack([b.sum() * lengths + len(b) * ages for b in bundles])


def _model(items: FloatArray, *, replicas: int) -> Any:
    """HiGHS with columns M_j, then x_ig; rows M_j - sum items*x >= 0, then sum_g x_ig = 1."""
    try:
        import highspy  # noqa: PLC0415  # optional, and slow to import
    except ImportError as error:
        raise MissingExtraError("the window bound", "solvers") from error
    count, segments = items.shape
    peak_rows = replicas * segments
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = segments + count * replicas, peak_rows + count
    lp.col_cost_ = np.repeat([1.0, 0.0], [segments, count * replicas])
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.repeat([np.inf, 1.0], [segments, count * replicas])
    lp.row_lower_ = np.repeat([0.0, 1.0], [peak_rows, count])
    lp.row_upper_ = np.repeat([np.inf, 1.0], [peak_rows, count])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = _columns(
        items, replicas=replicas
    )
    highs = _silently_made(highspy.Highs)
    highs.setOptionValue("output_flag", False)  # noqa: FBT003  # HiGHS's signature
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("presolve", "off")
    if highs.passModel(lp) != highspy.HighsStatus.kOk:
        raise BrtheoryError("HiGHS refused the model of a window")
    return highs


def _columns(
    items: FloatArray, *, replicas: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], FloatArray]:
    """The matrix by columns: starts, row indices, values."""
    count, segments = items.shape
    index: list[int] = []
    value: list[float] = []
    start = [0]
    for j in range(segments):
        index += [g * segments + j for g in range(replicas)]
        value += [1.0] * replicas
        start.append(len(index))
    for i in range(count):
        where = np.flatnonzero(items[i])
        for g in range(replicas):
            index += [*(where + g * segments).tolist(), replicas * segments + i]
            value += [*(-items[i][where]).tolist(), 1.0]
            start.append(len(index))
    return np.array(start, dtype=np.int32), np.array(index, dtype=np.int32), np.array(value)


def _silently_made(make: Callable[[], Any]) -> Any:
    """Call ``make`` with standard output closed: HiGHS prints a banner whatever its options say."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        return make()
    finally:
        os.dup2(kept, 1)
        os.close(kept)
