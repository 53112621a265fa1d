"""Policies of the gap report: a router, and for BR-H the predictor it listens to.

br0             a router of the registry; one that needs predictions gets the oracle's
brh:survival    the same router with a predictor that can be deployed: it learns as it goes
"""

from dataclasses import dataclass

import numpy as np

from brtheory.errors import InputError
from brtheory.offline.assignment import Assignment
from brtheory.offline.instance import Instance
from brtheory.routers.registry import RouterSpec, find_router
from brtheory.simulation.replay import ordered_lengths, replay
from brtheory.simulation.run import build_predictor

ORACLE = "oracle"
DEPLOYABLE = ("survival",)
"""Predictors a policy may name: they need neither a horizon nor prompts to be built."""


@dataclass(frozen=True)
class Policy:
    """What is replayed.

    Parameters
    ----------
    name
        As asked for, ``ROUTER`` or ``ROUTER:PREDICTOR``.
    spec
        The router, with its default parameters.
    predictor
        ``oracle`` or one of ``DEPLOYABLE``; routers that need none do not ask.
    """

    name: str
    spec: RouterSpec
    predictor: str


def find_policy(name: str) -> Policy:
    """Look a policy up.

    Raises
    ------
    InputError
        If there is no such router or predictor, or the router needs no predictor.

    Examples
    --------
    >>> find_policy("brh:survival").predictor, find_policy("brh").predictor
    ('survival', 'oracle')
    """
    router, colon, predictor = name.partition(":")
    spec = find_router(router)
    if not colon:
        return Policy(name, spec, ORACLE)
    if not spec.needs_predictor:
        raise InputError("router", f"{router} alone: it needs no predictor", repr(name))
    if predictor not in (ORACLE, *DEPLOYABLE):
        expected = " or ".join(f"{router}:{each}" for each in (ORACLE, *DEPLOYABLE))
        raise InputError("router", expected, repr(name))
    return Policy(name, spec, predictor)


def replay_policy(instance: Instance, policy: Policy, *, seed: int) -> Assignment:
    """What the policy does on an instance of at least one request; some policies draw."""
    router = policy.spec.build(policy.spec.params(), np.random.default_rng(seed))
    outputs = ordered_lengths(instance).output_tokens
    predictor = build_predictor(policy.spec, policy.predictor, outputs)
    return replay(instance, router, predictor=predictor)
