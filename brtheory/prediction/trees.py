"""Boosted regression trees as plain arrays: evaluated here, without the library that grew them.

All trees lie one after another in flat arrays of nodes. A leaf points at itself, so every row goes
down a fixed number of levels in all trees at once; the sum of the leaves it ends in, plus a base,
is the value of the ensemble. Features are compared in float32, as scikit-learn does.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import IntArray
from brtheory.errors import InputError

FloatArray = NDArray[np.float64]
NodeArray = NDArray[np.int32]

DEEPEST = 32


@dataclass(frozen=True, slots=True)
class TreeEnsemble:
    """Sum of regression trees.

    Parameters
    ----------
    base
        Value before any tree.
    depth
        Levels of the deepest tree, 0 .. ``DEEPEST``.
    roots
        Node at which each tree starts, shape (t,), t >= 1.
    feature, left, right
        Per node, shape (m,): the feature compared, and the nodes reached where it is at most the
        threshold and where it is not; a leaf reaches itself.
    threshold, value
        Per node, shape (m,): what the feature is compared with, and what a leaf contributes.

    Raises
    ------
    InputError
        If an array has another shape or type, or a node or number lies out of range.
    """

    base: float
    depth: int
    roots: NodeArray
    feature: NodeArray
    left: NodeArray
    right: NodeArray
    threshold: FloatArray
    value: FloatArray
    _children: NodeArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        nodes = len(self.value)
        if not (np.isfinite(self.base) and 0 <= self.depth <= DEEPEST):
            raise InputError("trees", f"a finite base and a depth up to {DEEPEST}", self.depth)
        for name in ("roots", "feature", "left", "right"):
            indices = getattr(self, name)
            _check_column(name, indices, np.int32, None if name == "roots" else nodes)
            if indices.min() < 0 or (name != "feature" and indices.max() >= nodes):
                raise InputError(f"trees: {name}", f"nodes from 0 to {nodes - 1}", "others")
        for name in ("threshold", "value"):
            _check_column(name, getattr(self, name), np.float64, nodes)
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"trees: {name}", "finite numbers", "others")
        # One table, right child before left: a comparison is an index into it.
        object.__setattr__(self, "_children", np.stack([self.right, self.left], axis=1).ravel())

    @property
    def features(self) -> int:
        """Least number of features a row must have."""
        return int(self.feature.max()) + 1

    def evaluate(self, rows: FloatArray) -> FloatArray:
        """Values of rows of features, shape (n, f), as an array of shape (n,).

        Raises
        ------
        InputError
            If the rows have too few features.
        """
        sums: FloatArray = self.base + self.leaves(rows).sum(axis=1)
        return sums

    def leaves(self, rows: FloatArray) -> FloatArray:
        """What each tree contributes to the value of each row, shape (n, t).

        Raises
        ------
        InputError
            If the rows have too few features.
        """
        if rows.ndim != 2 or rows.shape[1] < self.features:
            raise InputError("rows", f"shape (n, {self.features}) or wider", rows.shape)
        compared = rows.astype(np.float32).astype(np.float64).ravel()
        start = np.arange(len(rows))[:, None] * rows.shape[1]
        node = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        for _ in range(self.depth):
            goes_left = compared.take(self.feature.take(node) + start) <= self.threshold.take(node)
            node = self._children.take(2 * node + goes_left)
        return self.value.take(node)


def side_by_side(one: TreeEnsemble, other: TreeEnsemble) -> TreeEnsemble:
    """The trees of two ensembles in one, to go down both at once; of its own it has no base."""
    shift = np.int32(len(one.value))
    return TreeEnsemble(
        base=0.0,
        depth=max(one.depth, other.depth),
        roots=np.concatenate([one.roots, other.roots + shift]),
        feature=np.concatenate([one.feature, other.feature]),
        left=np.concatenate([one.left, other.left + shift]),
        right=np.concatenate([one.right, other.right + shift]),
        threshold=np.concatenate([one.threshold, other.threshold]),
        value=np.concatenate([one.value, other.value]),
    )


def join_trees(
    trees: list[tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]],
    *,
    base: float,
    depth: int,
    rate: float,
) -> TreeEnsemble:
    """Lay trees one after another.

    Parameters
    ----------
    trees
        (left, right, feature, threshold, value) of each, shape (nodes,); a child below 0 marks a
        leaf, as in scikit-learn.
    base, depth
        As ``TreeEnsemble``.
    rate
        Learning rate the values are multiplied by.
    """
    offsets = np.cumsum([0, *(len(tree[0]) for tree in trees)])
    columns = [_shifted(tree, int(at)) for tree, at in zip(trees, offsets, strict=False)]
    left, right, feature, threshold, value = (np.concatenate(c) for c in zip(*columns, strict=True))
    return TreeEnsemble(
        base=base,
        depth=depth,
        roots=offsets[:-1].astype(np.int32),
        feature=feature.astype(np.int32),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        threshold=threshold,
        value=rate * value,
    )


def _shifted(
    tree: tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray], offset: int
) -> tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]:
    left, right, feature, threshold, value = tree
    leaf = left < 0
    itself = np.arange(len(left))
    return (
        np.where(leaf, itself, left) + offset,
        np.where(leaf, itself, right) + offset,
        np.where(leaf, 0, feature),
        np.where(leaf, 0.0, threshold),
        value,
    )


def _check_column(
    name: str, column: NDArray[np.generic], dtype: type[np.generic], length: int | None
) -> None:
    wanted = "(t,), t >= 1" if length is None else f"({length},)"
    fits = column.ndim == 1 and len(column) > 0 and length in (None, len(column))
    if not fits or column.dtype != dtype:
        got = f"{column.dtype} {column.shape}"
        raise InputError(f"trees: {name}", f"{np.dtype(dtype)} of shape {wanted}", got)
