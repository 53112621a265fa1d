"""N11: the window router decides as it is specified, parameters, learning and holds included."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.fast import FastEngine, FastWindow
from brtheory.routers.params import WindowParams
from brtheory.routers.window import Window
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.reals import named
from proofs.layers.search import drawn, exhaustive
from proofs.product import sane
from proofs.statement import Statement, Verdict
from proofs.window_specification import Learned, Waiting, specified_window_tick

NOW_S = 1024.0
PAST = ((3, 1.5), (1, 0.25), (8, 1.0))
"""Mean prompt 4, mean wait 11/12 s, lower median 1 s."""
SHIPPED = WindowParams()
VARIANTS = (
    SHIPPED,
    WindowParams(age_floor_s=0.0, age_limit=2.0),
    WindowParams(spare_order="fit", overflow_weight=0, size_weight=2.0),
    WindowParams(window=2, wait_weight=1.5, hold_s=0.0),
    WindowParams(hold_s=1.0, age_limit=None, wait_scale=0.5),
    WindowParams(room_share=0.75),
)
RANDOM_TICKS = 3_000


@dataclass(frozen=True, slots=True)
class Case:
    """One tick's inputs."""

    loads: Sequence[Any]
    slots: Sequence[int]
    pool: Sequence[Waiting]
    learned: Learned
    room: Sequence[Any] | None = None

    def by_product(self, engine: FastEngine | None = None) -> list[tuple[int, int]]:
        """What the product decides, in the specification's form."""
        router = Window(self.learned.params)
        router.statistics.add_all(self.learned.past)
        requests = [
            Request(i, each.size, ready_s=NOW_S - each.wait_s, reserved_tokens=each.reserved)
            for i, each in enumerate(self.pool)
        ]
        tokens = None if self.room is None else list(self.room)
        rows = [[load] for load in self.loads]
        state = TickState(rows, list(self.slots), requests, now_s=NOW_S, free_tokens=tokens)
        found = router.tick(state) if engine is None else FastWindow(router, engine).tick(state)
        return [(a.id, a.replica) for a in found]

    def by_specification(self) -> list[tuple[int, int]]:
        """What should be decided."""
        return specified_window_tick(
            self.loads, self.slots, self.pool, learned=self.learned, room=self.room
        )


def _programs() -> Iterator[Program]:
    """Without weight by size: the floor of a symbolic quotient is beyond the executor."""
    orders: tuple[Literal["longest", "fit"], ...] = ("longest", "fit")
    for slots, order in product(((1, 1), (1, 0), (2, 0)), orders):
        loads, sizes = named("L", 2), named("s", 2)
        params = WindowParams(spare_order=order, size_weight=0.0, age_floor_s=0.0, age_limit=4.0)
        case = Case(loads, slots, _pool(sizes, (3.5, 0.5)), Learned(PAST, params))

        def run(case: Case = case) -> Obligations:
            yield "same requests and replicas", case.by_product() == case.by_specification()

        yield Program(run, sane(loads, sizes), f"slots {slots}, {order}")


def _pool(sizes: Sequence[Any], waits: Sequence[float]) -> list[Waiting]:
    return [Waiting(size, wait) for size, wait in zip(sizes, waits, strict=True)]


def _small_cases() -> Iterator[tuple[Case]]:
    waits = ((20.0, 2.0, 0.5), (3.5, 2.5, 0.0), (31.0, 1.0, 1.0))
    for params, past, slots in product(VARIANTS, (PAST, ()), ((1, 1), (2, 0), (0, 1), (3, 2))):
        for loads in product((0, 3, 8), repeat=2):
            for sizes, profile in product(product((1, 2, 9), repeat=3), waits):
                yield (Case(loads, slots, _pool(sizes, profile), Learned(past, params)),)


def _random_case(rng: np.random.Generator) -> tuple[Case]:
    replicas, requests = int(rng.integers(1, 5)), int(rng.integers(0, 9))
    largest = int(rng.choice([3, 50, 2**20]))
    quarters = np.sort(rng.integers(0, int(rng.choice([8, 200])), size=requests))[::-1]
    sizes = rng.integers(1, largest + 1, size=requests).tolist()
    pool = [
        Waiting(size, float(quarter) / 4, size + int(rng.integers(4)))
        for size, quarter in zip(sizes, quarters, strict=True)
    ]
    past = [
        (int(rng.integers(1, largest + 1)), float(rng.integers(0, 12)) / 4)
        for _ in range(int(rng.integers(0, 6)))
    ]
    limited = rng.integers(3) == 0
    room = rng.integers(0, 3 * largest, size=replicas).tolist() if limited else None
    loads = rng.integers(0, 2 * largest, size=replicas).tolist()
    slots = rng.integers(0, 4, size=replicas).tolist()
    learned = Learned(past, VARIANTS[rng.integers(len(VARIANTS))])
    return (Case(loads, slots, pool, learned, room),)


def _as_specified(engine: FastEngine | None = None) -> Callable[[Case], bool]:
    return lambda case: case.by_product(engine) == case.by_specification()


N11 = Statement(
    id="N11",
    title="The window router's tick is the specified tick",
    claim="The window router decides exactly what its specification decides: replica by least "
    "load, overdue requests first, holds, KV room, spare slots, and the key with its cost of "
    "overflow and its worth of a wait, with what was learned computed afresh; its numpy tick too.",
    latex=r"\mathrm{tick}_{\mathrm{window}} = \mathrm{tick}_{\mathrm{spec}}",
    hypotheses=("keys within 2^62", "no more admitted requests than it remembers"),
    source="this project",
    about=(Window, WindowParams, FastWindow),
    expected=Verdict.CHECKED,
    layers=(
        execution(
            "G = 2, 2 requests, all real loads and prompts, no weight by size",
            _programs,
        ),
        exhaustive("G = 2, 3 requests, six sets of parameters", _small_cases, _as_specified()),
        drawn(
            f"{RANDOM_TICKS} random ticks, G = 1..4, with and without KV limits",
            _random_case,
            _as_specified(),
            cases=RANDOM_TICKS,
            seed=11,
        ),
        drawn(
            f"numpy, {RANDOM_TICKS} random ticks, G = 1..4, with and without KV limits",
            _random_case,
            _as_specified("numpy"),
            cases=RANDOM_TICKS,
            seed=12,
        ),
    ),
)

STATEMENTS = (N11,)
