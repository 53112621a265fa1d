"""The extracted tick as an oracle: random cases decided by it and by the product.

The program is compiled from what Coq extracts of ``BalanceRoute.v`` and asked once for all cases.
nat and Z become OCaml's 63-bit integers, so cases stay far below that: loads and prompts up to
2^40 tokens for BR-0, up to 2^20 for BR-H, whose fixed-point weights take up to 24 bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from brtheory.core.fscore import ScoreWeights
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.fast import FastBalanceRoute, FastEngine
from brtheory.routers.params import BalanceRouteParams, HorizonParams
from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from proofs.kernel.development import SOURCES, compile_modules
from proofs.kernel.toolchain import run_program

SMALL, LARGE, HUGE = 12, 2**20, 2**40
BATCH = 10_000
"""Cases held at once."""

Decisions = list[tuple[int, int, int, int]]
"""(request, replica, stage, score of the decision's set), in decision order."""


@dataclass(frozen=True, slots=True)
class Case:
    """One tick: a router of the product and the state it decides on."""

    router: BalanceRoute
    state: TickState

    @property
    def weights(self) -> ScoreWeights:
        """The score's weights for this number of replicas."""
        return self.router.weights(len(self.state.loads))

    def by_product(self, engine: FastEngine | None = None) -> Decisions:
        """Decide by the product: by its reference, or by a fast engine."""
        router = self.router if engine is None else FastBalanceRoute(self.router, engine)
        admitted = router.tick(self.state)
        return [(a.id, a.replica, a.stage or 0, a.score or 0) for a in admitted]

    def as_integers(self) -> Iterator[int]:
        """Write the case as the driver reads it: each list preceded by its length."""
        params, state, weights = self.router.params, self.state, self.weights
        greedy = params.greedy_threshold
        yield weights.reward
        yield from _counted(weights.overflow)
        yield len(state.loads) if greedy is None else greedy
        yield params.max_subset
        yield int(params.key_order == "margin-first")
        yield int(params.stage1 == "longest")
        yield len(state.loads)
        for row in state.loads:
            yield from _counted(row)
        yield from _counted(state.free_slots)
        yield from _counted([request.prompt_tokens for request in state.pool])


class ExtractedTick:
    """The compiled program.

    Parameters
    ----------
    directory
        Where it is built; must exist and outlive it.

    Raises
    ------
    KernelError
        If Coq or OCaml is missing or fails.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        compile_modules(directory, ("Imbalance", "Tick", "BalanceRoute", "Extract"))
        driver = (SOURCES / "driver.ml").read_text(encoding="utf-8")
        (directory / "driver.ml").write_text(driver, encoding="utf-8")
        files = ["extracted.mli", "extracted.ml", "driver.ml"]
        command = ["ocamlfind", "ocamlopt", "-w", "-a", *files, "-o", "decide"]
        run_program(command, directory=directory)

    def decide(self, cases: Sequence[Case]) -> list[Decisions]:
        """Decide all cases in one run of the program."""
        lines = [" ".join(map(str, case.as_integers())) for case in cases]
        given = f"{len(cases)}\n" + "\n".join(lines) + "\n"
        answer = run_program(
            [str(self._directory / "decide")], directory=self._directory, given=given
        )
        return [_grouped(line) for line in answer.output.splitlines()]


def first_disagreement(
    program: ExtractedTick, count: int, *, seed: int, engine: FastEngine | None = None
) -> str | None:
    """Compare the product with the extracted program on random cases.

    Parameters
    ----------
    program
        The extracted tick.
    count, seed
        How many cases, and the seed they are drawn with.
    engine
        Which fast engine of the product decides; None is its reference.

    Returns
    -------
    str or None
        The first case decided differently, as text, or None.

    Raises
    ------
    KernelError
        If the program fails.
    """
    rng = np.random.default_rng(seed)
    for start in range(0, count, BATCH):
        cases = [random_case(rng) for _ in range(min(BATCH, count - start))]
        for case, theirs in zip(cases, program.decide(cases), strict=True):
            ours = case.by_product(engine)
            if ours != theirs:
                return f"{case.state} {case.router.params}: product {ours}, extracted {theirs}"
    return None


def random_case(rng: np.random.Generator) -> Case:
    """Draw one tick; small numbers are common, so that ties and full replicas are too."""
    horizon = int(rng.integers(1, 6)) if rng.random() < 0.5 else 0
    replicas, waiting = int(rng.integers(1, 6)), int(rng.integers(0, 9))
    largest = [SMALL, LARGE, LARGE if horizon else HUGE][rng.integers(3)]
    loads = rng.integers(0, largest, size=(replicas, horizon + 1)).tolist()
    prompts = rng.integers(1, largest, size=waiting).tolist()
    slots = rng.integers(0, 5, size=replicas).tolist()
    pool = [Request(id=i, prompt_tokens=prompt) for i, prompt in enumerate(prompts)]
    return Case(_random_router(rng, horizon), TickState(loads, slots, pool))


def _random_router(rng: np.random.Generator, horizon: int) -> BalanceRoute:
    options: dict[str, Any] = {
        "greedy_threshold": None if rng.random() < 0.3 else int(rng.integers(0, 12)),
        "max_subset": int(rng.integers(1, 6)),
        "key_order": "margin-first" if rng.random() < 0.5 else "slots-first",
        "stage1": "longest" if rng.random() < 0.3 else "f-score",
    }
    if horizon == 0:
        return BalanceRoute(BalanceRouteParams(**options))
    weighted: dict[str, Any] = {
        "discount": float(rng.uniform(0.3, 1.0)),
        "reward_weight": float(rng.uniform(0.5, 2.0)),
    }
    return BalanceRouteHorizon(HorizonParams(horizon=horizon, **weighted, **options))


def _counted(values: Sequence[int]) -> Iterator[int]:
    yield len(values)
    yield from values


def _grouped(line: str) -> Decisions:
    numbers = [int(word) for word in line.split()]
    return list(zip(*[iter(numbers)] * 4, strict=True))
