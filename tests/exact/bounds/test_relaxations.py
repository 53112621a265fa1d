"""LP, Lagrangian and column generation all give exactly the work bound W/G."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from brtheory.offline.generate import random_instance
from solvers.bounds.steps import admission_steps


def drawn(seed, replicas):
    """A tiny instance as weights, shape (requests, steps), and W/G."""
    rng = np.random.default_rng(seed)
    instance = random_instance(
        rng, requests=3, replicas=replicas, slots=3, longest_output=5, latest_ready=4
    )
    steps = admission_steps(instance)
    weights = np.zeros((3, 12))
    for row, request in zip(weights, instance.requests, strict=True):
        for age in range(request.output_tokens):
            row[steps[request.id] + age] = request.prompt_tokens + age
    return weights, instance.total_work / replicas


def smallest_over_points(points, weights, *, replicas):
    """Least mean sum of peaks of points (replica -> set of requests) that cover each request once.

    The Lagrangian dual of the covering rows, written as the LP over the convex hull of the points.
    """
    sets = [np.array(point).reshape(replicas, -1) for point in points]
    cost = [(placed @ weights).max(axis=0).sum() for placed in sets]
    cover = np.array([placed.sum(axis=0) for placed in sets]).T
    rows = np.vstack([cover, np.ones(len(sets))])
    return linprog(cost, A_eq=rows, b_eq=np.ones(len(rows))).fun


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_the_linear_relaxation_is_the_work_bound(seed, replicas):
    weights, work = drawn(seed, replicas)
    count, steps = weights.shape
    # Columns: M(k), then x_ig by request. Rows: L_g(k) - M(k) <= 0.
    loads = np.hstack(
        [
            np.tile(-np.eye(steps), (replicas, 1)),
            *(np.kron(np.eye(replicas), w[:, None]) for w in weights),
        ]
    )
    once = np.hstack([np.zeros((count, steps)), np.kron(np.eye(count), np.ones(replicas))])
    cost = np.repeat([1.0, 0.0], [steps, count * replicas])
    found = linprog(
        cost,
        A_ub=loads,
        b_ub=np.zeros(len(loads)),
        A_eq=once,
        b_eq=np.ones(count),
        bounds=(0, None),
    )
    assert found.fun == pytest.approx(work)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_the_lagrangian_dual_is_the_work_bound(seed, replicas):
    weights, work = drawn(seed, replicas)
    points = list(product((0, 1), repeat=3 * replicas))
    assert smallest_over_points(points, weights, replicas=replicas) == pytest.approx(work)
    # The multipliers named in the docs: u_i = (work of i)/G, exactly, by trying every point.
    u = weights.sum(axis=1) / replicas
    values = [
        (np.reshape(point, (replicas, 3)) @ weights).max(axis=0).sum()
        + u @ (1 - np.reshape(point, (replicas, 3)).sum(axis=0))
        for point in points
    ]
    assert min(values) == pytest.approx(work)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_column_generation_with_every_column_is_the_work_bound(seed, replicas):
    weights, work = drawn(seed, replicas)
    columns = np.array(list(product((0, 1), repeat=3)))
    steps, each = weights.shape[1], len(columns)
    loads = np.hstack(
        [np.tile(-np.eye(steps), (replicas, 1)), np.kron(np.eye(replicas), (columns @ weights).T)]
    )
    convex = np.hstack([np.zeros((replicas, steps)), np.kron(np.eye(replicas), np.ones(each))])
    cover = np.hstack([np.zeros((3, steps)), np.tile(columns.T, replicas)])
    equal = np.vstack([convex, cover])
    cost = np.repeat([1.0, 0.0], [steps, replicas * each])
    found = linprog(
        cost, A_ub=loads, b_ub=np.zeros(len(loads)), A_eq=equal, b_eq=np.ones(len(equal))
    )
    assert found.fun == pytest.approx(work)


def test_integral_points_that_place_each_request_once_are_above_the_work_bound():
    """The three relaxations lose something: two requests of 3 and 1 tokens for a step, 3 > 4/2."""
    weights = np.array([[3.0], [1.0]])
    points = [p for p in product((0, 1), repeat=4) if p[0] + p[2] == 1 == p[1] + p[3]]
    assert smallest_over_points(points, weights, replicas=2) == pytest.approx(3.0)
