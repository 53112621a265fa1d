"""Branch and bound on one window: the tree of partial assignments that becomes its proof.

Best first: the open node with the smallest bound is branched on the request whose children promise
most among a few candidates. Labels grow one by one (a child per label in use and one new label),
which covers every assignment up to renaming replicas. Each open node is a leaf of the proof when
the search stops, so a tree is valid whenever it stops.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.relaxation import FloatArray, Relaxed, WindowRelaxation
from solvers.certificate import Window, window_bound, window_step_bound

IntArray = NDArray[np.int64]
CANDIDATES = 4
"""Requests tried at each branching."""
SCALE = 2000
"""D: rounding the multipliers to 1/D costs little of the bound, larger ones cost file size."""


@dataclass(frozen=True)
class WindowProof:
    """A window's proved bound.

    Parameters
    ----------
    bound
        Lower bound on the window's sum of peaks, recomputed in integers.
    scale
        D; 1 without a tree.
    tree
        As in the certificate; None where the step bound is at least as good.
    leaves, solved
        Leaves of the tree, and LPs solved to make it.
    complete
        Whether the search ended by itself: the window's relaxation is solved to optimality.
    promise
        Estimate of the bound a long search would prove; it helps to choose windows, no more.
    """

    bound: int
    scale: int
    tree: dict[str, Any] | None
    leaves: int
    solved: int
    complete: bool
    promise: float


@dataclass(order=True)
class _Open:
    value: float
    order: int
    labels: dict[int, int] = field(compare=False)
    relaxed: Relaxed | None = field(compare=False)
    node: dict[str, Any] = field(compare=False, default_factory=dict)


def prove_window(
    window: Window,
    *,
    replicas: int,
    most_solved: int = 2000,
    most_leaves: int = 500,
    expired: Callable[[], bool] = lambda: False,
) -> WindowProof:
    """Grow a tree until it is complete or a limit is reached, and take the better of it and steps.

    Parameters
    ----------
    window
        What the window sees.
    replicas
        G.
    most_solved, most_leaves
        Limits on LPs and leaves; the last branching may exceed them a little.
    expired
        Asked before each branching whether time is up.
    """
    scale = SCALE
    steps = window_step_bound(window, replicas=replicas)
    if not window.inside or expired():
        complete = not window.inside
        return WindowProof(steps, 1, None, leaves=0, solved=0, complete=complete, promise=steps)
    relaxation = WindowRelaxation(window, replicas=replicas)
    root, heap, complete = _grow(
        relaxation, replicas=replicas, limits=(most_solved, most_leaves), expired=expired
    )
    for leaf in heap:
        y = None if leaf.relaxed is None else leaf.relaxed.multipliers
        leaf.node["multipliers"] = integer_multipliers(
            y, used=_used(leaf.labels), replicas=replicas, lengths=window.lengths, scale=scale
        )
    bound = window_bound(window, root, replicas=replicas, scale=scale)
    better = bound > steps
    return WindowProof(
        max(bound, steps),
        scale if better else 1,
        root if better else None,
        leaves=len(heap) if better else 0,
        solved=relaxation.solved,
        complete=complete,
        promise=max(bound, steps) if complete else max(steps, _promise(relaxation, bound)),
    )


def integer_multipliers(
    y: FloatArray | None, *, used: int, replicas: int, lengths: Sequence[int], scale: int
) -> list[list[int]]:
    """Round duals to integers >= 0 that sum to the scale on every segment.

    What rounding takes from a row on one segment it gets back on shorter ones, so that the row's
    sum over steps, which prices the whole background, is nearly kept.

    Parameters
    ----------
    y
        Duals, shape (G, segments); None for even multipliers.
    used
        Labels in use: one row each, and one for all other replicas together.
    replicas, lengths, scale
        G, the steps of each segment, and D.
    """
    rest = replicas - used
    even = np.full((replicas, len(lengths)), 1 / replicas)
    y = even if y is None else y
    rows = np.vstack([y[:used], y[used:].sum(axis=0)[None]]) if rest else y
    owed = np.zeros(len(rows))
    result = np.zeros(rows.shape, dtype=np.int64)
    for j in sorted(range(len(lengths)), key=lambda j: -lengths[j]):
        total = float(rows[:, j].sum())
        exact = scale * rows[:, j] / total if total > 0 else np.full(len(rows), scale / len(rows))
        result[:, j] = _round(np.maximum(exact + owed / lengths[j], 0.0), total=scale)
        owed += lengths[j] * (exact - result[:, j])
    return [[int(v) for v in row] for row in result]


def _round(exact: FloatArray, *, total: int) -> IntArray:
    """Integers >= 0 near ``exact`` that sum to ``total``: largest remainders first."""
    whole = np.floor(exact).astype(np.int64)
    order = np.argsort(whole - exact, kind="stable")
    for k in range(total - int(whole.sum())):
        whole[order[k % len(order)]] += 1
    while whole.sum() > total:
        whole[int(np.argmax(whole))] -= 1
    return whole


def _promise(relaxation: WindowRelaxation, bound: int) -> float:
    """Extrapolate a short search by the number of requests inside.

    Fitted once on windows of 6 to 12 events at 8 replicas, from some 50 LPs to some 3000: what a
    window proves above its work grew 1.1, 1.3, 1.7 and 2.3 times.
    """
    excess = max(0.0, bound - relaxation.work_bound)
    return relaxation.work_bound + excess * (1 + 0.75 * (len(relaxation.requests) / 10) ** 3)


def _grow(
    relaxation: WindowRelaxation,
    *,
    replicas: int,
    limits: tuple[int, int],
    expired: Callable[[], bool],
) -> tuple[dict[str, Any], list[_Open], bool]:
    """Return the root, the open nodes, and whether the smallest of them places every request."""
    most_solved, most_leaves = limits
    first = relaxation.solve({})
    heap = [_Open(0.0 if first is None else first.value, 0, {}, first)]
    root, count = heap[0].node, 0
    while len(heap[0].labels) < len(relaxation.requests):
        if relaxation.solved >= most_solved or len(heap) >= most_leaves or expired():
            return root, heap, False
        parent = heapq.heappop(heap)
        request, children = _branch(relaxation, parent, replicas=replicas)
        nodes: list[dict[str, Any]] = []
        for label, child in enumerate(children):
            count += 1
            value = parent.value if child is None else max(parent.value, child.value)
            opened = _Open(value, count, {**parent.labels, request: label}, child)
            nodes.append(opened.node)
            heapq.heappush(heap, opened)
        parent.node.update(request=relaxation.requests[request], children=nodes)
    return root, heap, True


def _branch(
    relaxation: WindowRelaxation, parent: _Open, *, replicas: int
) -> tuple[int, list[Relaxed | None]]:
    """Solve the children of a few candidates and keep those that lift the bound most."""
    free = [i for i in range(len(relaxation.requests)) if i not in parent.labels]
    doubt = relaxation.work[free].sum(axis=1)
    if parent.relaxed is not None:
        # A request the LP keeps whole lifts nothing; the small term orders what it splits alike.
        doubt = doubt * (1.02 - parent.relaxed.shares[free].max(axis=1))
    labels = range(min(_used(parent.labels) + 1, replicas))
    best: tuple[tuple[float, float], int, list[Relaxed | None]] | None = None
    for position in np.argsort(-doubt, kind="stable")[:CANDIDATES].tolist():
        request = free[position]
        children = [relaxation.solve({**parent.labels, request: label}) for label in labels]
        values = [parent.value if child is None else child.value for child in children]
        score = (min(values), sum(values))
        if best is None or score > best[0]:
            best = (score, request, children)
    assert best is not None  # noqa: S101  # a node with all requests placed is never branched
    return best[1], best[2]


def _used(labels: Mapping[int, int]) -> int:
    return 1 + max(labels.values(), default=-1)
