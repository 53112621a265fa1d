"""R6 - R9: claims about the horizon and the gate that are false."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import z3

from brtheory.core.fscore import f_score
from brtheory.core.horizon import project_loads
from brtheory.core.imbalance import margins
from brtheory.core.requests import Request
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import Instance, OfflineRequest
from brtheory.prediction.contribution import contribution
from brtheory.prediction.protocol import Prediction
from brtheory.routers.params import BalanceRouteParams, HorizonParams
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from brtheory.simulation.replay import replay
from proofs.formulas import largest, reals, score_of, total, vector, window_score
from proofs.layers.search import by_sum, smallest_counterexample
from proofs.layers.smt import Goal, smt
from proofs.product import IMBALANCE, score
from proofs.statement import Statement, Verdict
from proofs.topics.horizon import HORIZON, weights_of
from proofs.topics.refuted_score import CLAIMS, REALS

KeyOrder = Literal["slots-first", "margin-first"]


def _anchored_rows(tokens: Sequence[Sequence[int]], horizon: int) -> Any:
    """Projected loads of the product where nothing is predicted to end; tokens by replica."""
    where = [g for g, row in enumerate(tokens) for _ in row]
    weights = [weight for row in tokens for weight in row]
    return project_loads(
        replica=np.array(where, dtype=np.int64),
        tokens=np.array(weights, dtype=np.int64),
        present=np.full(len(weights), horizon + 1),
        replicas=len(tokens),
        horizon=horizon,
    ).tolist()


def _split(load: int, active: int) -> list[int] | None:
    """Weights of ``active`` requests that add up to a load, None if they cannot."""
    if load < active or (active == 0 and load > 0):
        return None
    return [load - active + 1, *[1] * (active - 1)] if active else []


def _r6_goals() -> Iterator[Goal]:
    loads, counts, (x,) = vector("L", 2), vector("n", 2), reals("x")
    steps = [[load + h * n for load, n in zip(loads, counts, strict=True)] for h in range(3)]
    windows = [[largest(row) - row[g] for row in steps] for g in (0, 1)]
    wide = [window_score(z3.RealVal(3), [z3.RealVal(2)] * 3, w, x) for w in windows]
    narrow = [score_of(2, w[0], x) for w in windows]
    bounds = [z3.And(n >= 1, n <= 8) for n in counts]
    yield Goal(
        wide[0] >= wide[1],
        [*bounds, *[load >= 0 for load in loads], x >= 1, narrow[0] > narrow[1]],
        "G = 2, H = 2, nothing predicted to end",
    )


def _r6_holds(loads: tuple[int, ...], counts: tuple[int, ...], delta: int) -> bool | None:
    tokens = [_split(load, n) for load, n in zip(loads, counts, strict=True)]
    narrow = [score(2, margin, delta) for margin in margins(loads)]
    known = [row for row in tokens if row is not None]
    if len(known) < 2 or delta < 1 or narrow[0] <= narrow[1]:
        return None
    steps = list(zip(*_anchored_rows(known, 2), strict=True))
    windows = [[margins(row)[g] for row in steps] for g in (0, 1)]
    wide = [f_score(delta, window, weights_of(2, 2)) for window in windows]
    return bool(wide[0] >= wide[1])


def _r6_cases() -> Iterator[tuple[Any, ...]]:
    for case in by_sum(5, low=0, high=6):
        yield case[:2], case[2:4], case[4]


R6 = Statement(
    id="R6",
    title="No prediction is not BR-0",
    claim="False: where prediction knows nothing BR-H ranks replicas as BR-0 does. (True for "
    "H = 0, T18, and for constant margins, T19; with growth the margins move.)",
    latex=r"\hat c \equiv H \Rightarrow \arg\max_g F_H = \arg\max_g F_0",
    source=CLAIMS,
    about=(*HORIZON, *IMBALANCE, project_loads),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r6_goals),
        smallest_counterexample(
            "smallest loads, active counts and request (the published one plus 3 tokens), H = 2",
            _r6_cases,
            _r6_holds,
            expected=((3, 4), (3, 1), 1),
        ),
    ),
)


def _r7_goals() -> Iterator[Goal]:
    replicas, x = reals("G x")
    window = vector("m", 3)
    exact = total(score_of(replicas, margin, x + h) for h, margin in enumerate(window))
    wide = window_score(z3.RealVal(3), [replicas] * 3, window, x)
    assumed = [replicas == 2, x >= 1, *[margin >= 0 for margin in window]]
    yield Goal(exact == wide, assumed, "G = 2, H = 2, gamma = 1, one growing request")


def _r7_holds(prompt: int, background: int) -> bool | None:
    """F_H of one request, H = 1, against the judge with and without it; loads (0, b)."""
    if prompt < 1 or background < 1:
        return None
    other = OfflineRequest(1, 0, background, 2)
    admitted = OfflineRequest(2, 0, prompt, 2)
    wastes = []
    for requests in ((other,), (other, admitted)):
        instance = Instance(2, 9, None, 1.0, 1.0, requests)
        wastes.append(evaluate(instance, replay(instance, _OneEach())).imbalance_total or 0)
    window = [background, background + 1]
    weights = weights_of(2, 1)
    wide = f_score(prompt, window, weights)
    return bool(wide == (wastes[0] - wastes[1]) * (weights.reward // len(window)))


class _OneEach:
    """Places request i on replica i: the background and the admitted request apart."""

    def place(self, request: Request, view: Any) -> int:
        del view
        return request.id


R7 = Statement(
    id="R7",
    title="F_H is not the windowed change of imbalance",
    claim="False: F_H is the discounted change of imbalance over the window. (Only without growth "
    "and completion of what is admitted, T22 - T24.)",
    latex=r"F_H(Q) = -\sum_h d_h\, \Delta I(k+h)",
    source=CLAIMS,
    about=(*HORIZON, evaluate),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r7_goals),
        smallest_counterexample(
            "smallest request beside a growing background, H = 1, the judge",
            lambda: by_sum(2, low=1, high=4),
            _r7_holds,
            expected=(1, 1),
        ),
    ),
)


def _r8_goals() -> Iterator[Goal]:
    loads, (gone,) = vector("L", 2), reals("w")
    kept = largest(loads) - loads[0]
    real_margin = largest([loads[0], loads[1] - gone]) - loads[0]
    yield Goal(
        kept <= real_margin,
        [*[load >= 0 for load in loads], gone > 0, gone <= loads[1]],
        "G = 2, one request kept in the projection though it leaves",
    )


def _r8_holds(load: int, leaving: int) -> bool | None:
    """Next step's margin of replica 0, with the request of replica 1 kept as an anchor."""
    if min(load, leaving) < 1:
        return None
    anchored = contribution(Prediction(0.4, 1.0), horizon=1)
    rows = _anchored_rows([[load], [leaving]], int(anchored))
    projected = margins([row[1] for row in rows])[0]
    real_margin = margins([load + 1, 0])[0]
    return projected <= real_margin


R8 = Statement(
    id="R8",
    title="Falling back to H is not conservative",
    claim="False: keeping a request that may leave never overstates a margin. (It raises the "
    "envelope of its replica, and so the margins of all others.)",
    latex=r"\hat m_g(h) \le m_g(h)",
    source=CLAIMS,
    about=(contribution, project_loads, *IMBALANCE),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r8_goals),
        smallest_counterexample(
            "smallest pair of requests; gate and projection of the product, H = 1",
            lambda: by_sum(2, low=1, high=4),
            _r8_holds,
            expected=(1, 2),
        ),
    ),
)


class _Unknowing:
    """Never sure enough to pass the gate: every request is an anchor, c_hat = H."""

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        del request, age
        return Prediction(0.4, float(horizon))


def gate_sums(
    requests: Sequence[tuple[int, int, int]],
    *,
    slots: int,
    horizon: int,
    key_order: KeyOrder = "slots-first",
) -> tuple[int, int]:
    """Sums of peaks of BR-0 and of gated BR-H on two replicas, by the judge.

    Parameters
    ----------
    requests
        Step at which each is ready, its prompt and its output.
    """
    known = tuple(OfflineRequest(i, *each) for i, each in enumerate(requests))
    instance = Instance(2, slots, None, 1.0, 1.0, known)
    plain = replay(instance, BalanceRoute(BalanceRouteParams(key_order=key_order)))
    router = BalanceRouteHorizon(HorizonParams(horizon=horizon, key_order=key_order))
    gated = replay(instance, router, predictor=_Unknowing())
    plain_sum, gated_sum = (evaluate(instance, run).sum_peak or 0 for run in (plain, gated))
    return plain_sum, gated_sum


def _r9_holds(ready: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
    requests = list(zip(ready, lengths[::2], lengths[1::2], strict=True))
    plain, gated = gate_sums(requests, slots=2, horizon=1)
    return gated <= plain


def _r9_cases() -> Iterator[tuple[Any, ...]]:
    for lengths in by_sum(6, low=1, high=4):
        for ready in ((0, 0, 0), (0, 0, 1), (0, 1, 1)):
            yield ready, lengths


def _r9_goals() -> Iterator[Goal]:
    # One more step of a run in which both routers admitted one request each of x tokens: BR-H to
    # the replica whose anchored load looks smaller, though that request has really left there.
    loads, (kept, x) = vector("L", 2), reals("w x")
    seen = [loads[0], loads[1] + kept]
    by_anchor = largest([loads[0] + x, loads[1]])
    by_present = largest([loads[0], loads[1] + x])
    yield Goal(
        by_anchor <= by_present,
        [*[load >= 0 for load in loads], kept > 0, x >= 1, seen[0] < seen[1], loads[0] > loads[1]],
        "G = 2, a kept request that has left",
    )


R9 = Statement(
    id="R9",
    title="Gating does not avoid every loss",
    claim="False: with every prediction gated to c_hat = H, BR-H never does worse than BR-0. (The "
    "smallest loss: peaks sum to 10 against 9. The published instance, 395 against 278, does not "
    "replay: there BR-H and BR-0 are equal, 395 slots first and 278 margin first, 3 slots each.)",
    latex=r"\hat c \equiv H \Rightarrow \sum_k M_{BR\text{-}H} \le \sum_k M_{BR\text{-}0}",
    source=CLAIMS,
    about=(BalanceRoute, BalanceRouteHorizon, contribution, evaluate),
    expected=Verdict.REFUTED,
    layers=(
        smt(REALS, _r9_goals),
        smallest_counterexample(
            "smallest three requests on G = 2, two slots each, H = 1; full runs, the judge",
            _r9_cases,
            _r9_holds,
            expected=((0, 1, 1), (1, 3, 1, 2, 4, 1)),
        ),
    ),
)


STATEMENTS = (R6, R7, R8, R9)
