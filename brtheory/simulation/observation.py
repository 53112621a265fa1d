"""How a router sees the cluster and the requests in a run, and the outlook that shows it so."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brtheory.core.cluster import Cluster
from brtheory.core.unequal import Paces
from brtheory.errors import BrtheoryError
from brtheory.prediction.protocol import Predictor
from brtheory.routers.protocol import (
    ForeseeingRouter,
    ImmediateRouter,
    Router,
    following,
    projection_rules,
)
from brtheory.simulation.outlook import LiveOutlook, Outlook
from brtheory.simulation.picture import RelayedOutlook
from brtheory.simulation.projection import ProjectionTracker


@dataclass(frozen=True)
class Observation:
    """How the router sees the cluster and the requests, where that is not as they are.

    The default is the truth, by way of a picture.

    Parameters
    ----------
    stale_steps
        Steps by which it learns of events late, >= 0.
    keeps_book
        Whether it counts its own placements and admissions since.
    prompt_tokens
        Prompts as it sees them, shape (n,), >= 1; None for the true ones.
    knows_speeds
        Whether it knows in what replicas differ; else it takes a token to cost the same everywhere.
    """

    stale_steps: int = 0
    keeps_book: bool = True
    prompt_tokens: NDArray[np.int64] | None = None
    knows_speeds: bool = True


def make_outlook(
    router: Router,
    predictor: Predictor | None,
    cluster: Cluster,
    observation: Observation | None,
    *,
    relayed: bool,
) -> Outlook:
    """What a router is shown in a run.

    Parameters
    ----------
    router, predictor
        Whose horizon is projected, and by whom.
    cluster
        The truth.
    observation
        What the router sees; None for the truth.
    relayed
        Whether requests are bound before they decode, so that the cluster's loads do not tell.

    Raises
    ------
    BrtheoryError
        If the router has a horizon and there is no predictor.
    """
    projection = _projection(router, predictor, replicas=cluster.replicas)
    if observation is None and not relayed:
        return LiveOutlook(cluster, projection)
    seen = observation or Observation()
    return RelayedOutlook(
        replicas=cluster.replicas,
        projection=projection,
        paces=shown_paces(cluster, observation),
        delay=seen.stale_steps,
        immediate=isinstance(router, ImmediateRouter),
        keeps_book=seen.keeps_book,
    )


def shown_paces(cluster: Cluster, observation: Observation | None) -> Paces | None:
    """Paces as a router knows them: None where replicas are alike, or it takes them to be."""
    blind = observation is not None and not observation.knows_speeds
    return None if blind else cluster.paces


def _projection(
    router: Router, predictor: Predictor | None, *, replicas: int
) -> ProjectionTracker | None:
    if isinstance(router, ImmediateRouter) or router.horizon == 0:
        return None
    if predictor is None:
        raise BrtheoryError(f"a router with horizon {router.horizon} needs a predictor")
    tracker = ProjectionTracker(
        predictor,
        replicas=replicas,
        horizon=router.horizon,
        rules=projection_rules(router),
        router=following(router),
    )
    if isinstance(router, ForeseeingRouter):
        router.foresee(tracker.steps_present)
    return tracker
