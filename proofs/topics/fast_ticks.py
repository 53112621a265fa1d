"""N8, N9: the numpy and compiled ticks decide as the reference; the kept-up horizon is the rebuilt.

Arrays of machine integers take no symbols, so the fast paths are compared on cases: every small
one, many random ones, and for the tick with the program extracted from the kernel's rule, which
knows neither of them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import z3

from brtheory.core.cluster import IntArray
from brtheory.core.horizon import NEVER, HorizonState, RebuiltHorizonState
from brtheory.core.requests import Request
from brtheory.core.still_horizon import StillHorizonState
from brtheory.core.tick import TickState
from brtheory.routers.backend import compiled_available
from brtheory.routers.fast import FastBalanceRoute, FastEngine
from brtheory.routers.fast_compiled import decide_balance
from brtheory.routers.fast_horizon import CompiledHorizonState
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from brtheory.routers.vectorised import decide_numpy
from proofs.formulas import reals
from proofs.kernel.oracle import Case, random_case
from proofs.layers.kernel import extracted_oracle
from proofs.layers.search import drawn, exhaustive
from proofs.layers.smt import Goal, smt
from proofs.product import router
from proofs.specification import Rule
from proofs.statement import Statement, Verdict

SOURCE = "this project; the production tick and its incremental horizon state"
RANDOM_TICKS = 5_000
HISTORIES = 500
LONGEST = 40

Change = tuple[str, int, int, int]
"""Kind, request, tokens or steps, finish from now (0: an anchor)."""


def _small_ticks() -> Iterator[tuple[Any, ...]]:
    rules = [
        Rule(greedy=greedy, margin_first=first, longest=longest)
        for greedy, first, longest in product((0, 2, 9), (False, True), (False, True))
    ]
    for loads, slots in product(product((0, 2, 5), repeat=2), ((1, 1), (2, 1), (0, 3))):
        for requests in (0, 1, 3):
            for sizes in product((1, 2, 4), repeat=requests):
                for rule in rules:
                    yield loads, slots, sizes, rule


def _small_case(engine: FastEngine) -> Callable[..., bool]:
    def holds(loads: Sequence[int], slots: Sequence[int], sizes: Sequence[int], rule: Rule) -> bool:
        reference = router(rule)
        pool = [Request(id=i, prompt_tokens=size) for i, size in enumerate(sizes)]
        state = TickState([[load] for load in loads], list(slots), pool)
        return FastBalanceRoute(reference, engine).tick(state) == reference.tick(state)

    return holds


def _random_tick(rng: np.random.Generator) -> tuple[Case]:
    return (random_case(rng),)


def _random_holds(engine: FastEngine) -> Callable[[Case], bool]:
    return lambda case: case.by_product(engine) == case.by_product()


N8 = Statement(
    id="N8",
    title="The fast ticks are the reference tick",
    claim="The numpy tick and the compiled tick of BR-0 and BR-H decide exactly what the readable "
    "reference decides: requests, replicas, stages and scores.",
    latex=r"\mathrm{tick}_{\mathrm{numpy}} = \mathrm{tick}_{\mathrm{compiled}} = "
    r"\mathrm{tick}_{\mathrm{reference}}",
    hypotheses=("numbers within the token limit; beyond it all refuse alike",),
    source=SOURCE,
    about=(BalanceRoute, BalanceRouteHorizon, BalanceRouteParams, decide_numpy, decide_balance),
    expected=Verdict.CHECKED,
    layers=(
        exhaustive(
            "numpy, G = 2, 0, 1, 3 requests, 12 variants", _small_ticks, _small_case("numpy")
        ),
        drawn(
            f"numpy, {RANDOM_TICKS} random ticks of BR-0 and BR-H",
            _random_tick,
            _random_holds("numpy"),
            cases=RANDOM_TICKS,
            seed=8,
        ),
        exhaustive(
            "compiled, G = 2, 0, 1, 3 requests, 12 variants",
            _small_ticks,
            _small_case("compiled"),
            quick=False,
            available=compiled_available,
        ),
        drawn(
            f"compiled, {10 * RANDOM_TICKS} random ticks of BR-0 and BR-H",
            _random_tick,
            _random_holds("compiled"),
            cases=10 * RANDOM_TICKS,
            seed=8,
            quick=False,
            available=compiled_available,
        ),
        extracted_oracle("compiled against the extracted tick", seed=30, engine="compiled"),
    ),
)


def _n9_goals() -> Iterator[Goal]:
    column, weights, count, step, weight = reals("C W n t w")
    # A column of step t holds W + n*t: W the tokens at step 0, n the number of those present.
    holds = column == weights + count * step
    yield Goal(
        column + (weight + step) == (weights + weight) + (count + 1) * step,
        [holds],
        "a request comes: admitted, refreshed, outlived",
    )
    yield Goal(
        column - (weight + step) == (weights - weight) + (count - 1) * step,
        [holds],
        "a request goes: retired, refreshed",
    )
    # One request with predicted finish f in the column of step t, new when the window's end moves
    # from e to x: kept in the running sums, added one by one, or gone.
    finish, before, after = reals("f e x")
    zero = z3.RealVal(0)
    kept = z3.If(finish >= after, weight + step, zero)
    late = z3.And(before <= finish, finish < after)
    added = z3.If(z3.And(late, step < finish), weight + step, zero)
    yield Goal(
        kept + added == z3.If(step < finish, weight + step, zero),
        [before <= step, step < after, z3.Or(finish <= step, finish >= step + 1)],
        "a new column holds exactly the requests predicted to be there",
    )


def _histories(length: int) -> Iterator[tuple[Any, ...]]:
    changes: tuple[Change, ...] = (
        ("admit", 0, 3, 0),
        ("admit", 1, 5, 2),
        ("retire", 0, 0, 0),
        ("refresh", 0, 0, 1),
        ("refresh", 1, 0, 4),
        ("advance", 0, 1, 0),
        ("advance", 0, 3, 0),
    )
    for horizon in (0, 1, 3):
        for history in product(changes, repeat=length):
            yield horizon, history


def _random_history(rng: np.random.Generator) -> tuple[int, list[Change]]:
    kinds = ("admit", "retire", "refresh", "advance")
    history = [
        (
            kinds[rng.integers(4)],
            int(rng.integers(8)),
            int(rng.integers(1, 9)),
            int(rng.integers(12)),
        )
        for _ in range(LONGEST)
    ]
    return int(rng.integers(0, 9)), history


class PlainStillRows:
    """Rows without growth, one request at a time: s + a where it is present at h, else 0."""

    def __init__(self, *, replicas: int, horizon: int) -> None:
        self.step, self._shape = 0, (replicas, horizon + 1)
        self._weight: dict[int, tuple[int, int]] = {}
        self._finish: dict[int, int] = {}

    def admit(self, request_id: int, replica: int, *, tokens: int, finish: int) -> None:
        """As ``HorizonState``, likewise below."""
        self._weight[request_id] = (replica, tokens - self.step)
        self._finish[request_id] = finish

    def retire(self, request_id: int) -> None:
        """Take it out."""
        del self._weight[request_id], self._finish[request_id]

    def refresh(self, request_id: int, *, finish: int) -> None:
        """Replace its predicted finish."""
        self._finish[request_id] = finish

    def advance(self, steps: int) -> None:
        """Go on."""
        self.step += steps

    def rows(self) -> IntArray:
        """Lhat_g(h)."""
        rows = np.zeros(self._shape, dtype=np.int64)
        for request, (replica, at_zero) in self._weight.items():
            finish = self._finish[request]
            for h in range(self._shape[1]):
                if finish <= self.step or self.step + h < finish:
                    rows[replica, h] += at_zero + self.step
        return rows


def _same_rows(
    kind: Callable[..., Any], plain: Callable[..., Any] = RebuiltHorizonState
) -> Callable[..., bool]:
    """Whether a state's rows are those summed afresh after every change of a history."""

    def holds(horizon: int, history: Sequence[Change]) -> bool:
        twins = [make(replicas=2, horizon=horizon) for make in (kind, plain)]
        active: set[int] = set()
        for change in history:
            if _applies(change, active):
                for twin in twins:
                    _apply(change, twin)
            if not np.array_equal(twins[0].rows(), twins[1].rows()):
                return False
        return True

    return holds


def _applies(change: Change, active: set[int]) -> bool:
    """Whether a change fits what is active, which it updates."""
    kind, request, *_ = change
    if kind == "advance":
        return True
    fits = (request in active) == (kind != "admit")
    if fits and kind != "refresh":
        active.symmetric_difference_update({request})
    return fits


def _apply(change: Change, state: Any) -> None:
    kind, request, amount, ahead = change
    finish = state.step + ahead if ahead else int(NEVER)
    if kind == "advance":
        state.advance(amount)
    elif kind == "admit":
        state.admit(request, request % 2, tokens=amount, finish=finish)
    elif kind == "retire":
        state.retire(request)
    else:
        state.refresh(request, finish=finish)


def _compiled_state(*, replicas: int, horizon: int) -> CompiledHorizonState:
    return CompiledHorizonState(replicas=replicas, horizon=horizon, slots=8)


N9 = Statement(
    id="N9",
    title="The horizon state that is kept up is the one rebuilt",
    claim="After any history of admissions, retirements, refreshed predictions and steps, the "
    "projected loads kept up incrementally equal those summed afresh from the active requests; so "
    "do those without growth.",
    latex=r"\hat L_g(h) = \sum_{i \text{ present at } h} (s_i + a_i + h)",
    source=SOURCE,
    about=(HorizonState, RebuiltHorizonState, CompiledHorizonState, StillHorizonState),
    expected=Verdict.CHECKED,
    layers=(
        smt("one column, any weights: every change and a new column", _n9_goals, general=False),
        exhaustive(
            "every history of 4 out of 7 changes, H = 0, 1, 3",
            lambda: _histories(4),
            _same_rows(HorizonState),
        ),
        drawn(
            f"{HISTORIES} random histories of {LONGEST} changes, H = 0..8",
            _random_history,
            _same_rows(HorizonState),
            cases=HISTORIES,
            seed=9,
        ),
        drawn(
            f"without growth, {HISTORIES} random histories of {LONGEST} changes, H = 0..8",
            _random_history,
            _same_rows(StillHorizonState, PlainStillRows),
            cases=HISTORIES,
            seed=10,
        ),
        drawn(
            f"compiled, {HISTORIES} random histories of {LONGEST} changes, H = 0..8",
            _random_history,
            _same_rows(_compiled_state),
            cases=HISTORIES,
            seed=9,
            quick=False,
            available=compiled_available,
        ),
    ),
)

STATEMENTS = (N8, N9)
