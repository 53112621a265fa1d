"""Replay an offline instance through a router: the assignment it would have made online."""

import numpy as np

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment, Placement
from brtheory.offline.instance import Instance
from brtheory.prediction.protocol import Predictor
from brtheory.routers.protocol import Router
from brtheory.simulation.arrivals import StepArrivals
from brtheory.simulation.engine import Simulation
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime


def replay(
    instance: Instance,
    router: Router,
    *,
    predictor: Predictor | None = None,
    longest_stride: int | None = None,
) -> Assignment:
    """Run the instance in steps and return the admissions, by request id.

    Requests are taken by (ready step, id); ``predictor`` sees them numbered in that order, as
    ``ordered_lengths`` gives them.

    Raises
    ------
    InfeasibleError
        If a request reserves more than the KV capacity.
    InputError
        If the instance has no requests.
    """
    if not instance.requests:
        raise InputError("requests", "at least one request", 0)
    order = sorted(instance.requests, key=lambda request: (request.ready, request.id))
    shape = ClusterShape(instance.replicas, instance.slots, instance.kv_capacity, instance.unequal)
    lengths = ordered_lengths(instance)
    lengths.check_fits(shape, ids=[request.id for request in order])
    record = Simulation(
        lengths,
        router,
        shape=shape,
        arrivals=StepArrivals(np.array([r.ready for r in order], dtype=np.int64)),
        step_time=StepTime(a0=instance.a0, b0=instance.b0),
        predictor=predictor,
        longest_stride=longest_stride,
    ).run()
    placements = (
        Placement(request.id, int(record.replica[i]), int(record.admitted_step[i]))
        for i, request in enumerate(order)
    )
    return tuple(sorted(placements, key=lambda p: p.id))


def ordered_lengths(instance: Instance) -> Lengths:
    """Lengths of the requests in the order in which a replay numbers them."""
    order = sorted(instance.requests, key=lambda request: (request.ready, request.id))
    return Lengths(
        prompt_tokens=np.array([r.prompt_tokens for r in order], dtype=np.int64),
        output_tokens=np.array([r.output_tokens for r in order], dtype=np.int64),
    )
