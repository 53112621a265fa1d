"""Bad instances: how far a router's schedule can be from the best one, found and kept.

Two searches, both deterministic. Enumeration: every instance of three requests on two replicas
with small integers, then random ones of four, the exact optimum by brute force. SMT: from empty
replicas, a solver looks on every path of the product's own tick for prompts with a larger ratio of
peak loads until there are none, so what it ends with is the largest over all real prompts.

    python -m tests.regression.bad_instances [NAME ...]

searches again (a minute or two), for all or some of ``ROUTERS``, and writes one JSON file a
router. A ratio is that of the worst instance found, exact; only the solver's are suprema. Cost is
a0*(sum of peak loads) + b0*steps with a0 = b0 = 1, and a0 = 1, b0 = 0 in the solver's finds; the
optimum is over all schedules that leave no request waiting beside a free slot.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np

from brtheory.files import write_text_atomic
from brtheory.offline.evaluate import evaluate
from brtheory.offline.instance import (
    Instance,
    InstanceDocument,
    OfflineRequest,
    instance_from_document,
    instance_to_json,
)
from brtheory.routers.params import params_from_json
from brtheory.routers.registry import find_router
from brtheory.simulation.replay import ordered_lengths, replay
from brtheory.simulation.run import build_predictor
from proofs.layers.executor import FalsifiedError, explore
from proofs.specification import Rule
from proofs.topics.suprema import Supremum, peak_ratio, ratio_programs
from solvers.facade import solve

INSTANCES = Path(__file__).parent / "instances"
SEED = 0
RANDOM_INSTANCES = 40
DENOMINATORS = range(1, 13)
"""Of the ratios the solver's search guesses: prompts that come a little closer each time would
never end."""

Router = tuple[str, str, dict[str, Any]]
"""Name of the file, router, parameters."""

ROUTERS: tuple[Router, ...] = (
    ("round-robin", "round-robin", {}),
    ("jsq", "jsq", {}),
    ("engine-score", "engine-score", {}),
    ("least-tokens", "least-tokens", {}),
    ("random", "random", {}),
    ("p2c", "p2c", {}),
    ("pool-fifo", "pool-fifo", {}),
    ("br0", "br0", {}),
    ("br0-margin-first", "br0", {"key_order": "margin-first"}),
    ("br0-longest", "br0", {"stage1": "longest", "greedy_threshold": 0}),
    ("brh-oracle", "brh", {"horizon": 4}),
    ("bf-io", "bf-io", {}),
    ("window", "window", {}),
)


@dataclass(frozen=True)
class BadInstance:
    """One find.

    Parameters
    ----------
    name, router, params
        Of the file; what was replayed.
    instance
        The requests and the cluster.
    ratio
        Cost of the router's schedule over the least cost of any.
    found
        How, in words.
    """

    name: str
    router: str
    params: dict[str, Any]
    instance: Instance
    ratio: Fraction
    found: str

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "router": self.router,
            "params": self.params,
            "ratio": f"{self.ratio.numerator}/{self.ratio.denominator}",
            "found": self.found,
            "instance": instance_to_json(self.instance),
        }


def read_bad_instance(path: Path) -> BadInstance:
    document = json.loads(path.read_text(encoding="utf-8"))
    parsed = InstanceDocument.model_validate_json(json.dumps(document.pop("instance")))
    instance = instance_from_document(parsed)
    return BadInstance(**{**document, "ratio": Fraction(document["ratio"])}, instance=instance)


def replayed_cost(instance: Instance, router: str, params: dict[str, Any]) -> int:
    """Barrier time of what the router does, by the judge; a0 and b0 are integers here."""
    spec = find_router(router)
    built = spec.build(
        params_from_json(spec.params, params, where=router), np.random.default_rng(SEED)
    )
    outputs = ordered_lengths(instance).output_tokens
    horizon = getattr(built, "horizon", None)
    guide = build_predictor(spec, "oracle", outputs, horizon=horizon, seed=SEED)
    judged = evaluate(instance, replay(instance, built, predictor=guide))
    assert judged.feasible
    assert judged.time_s is not None
    return int(judged.time_s)


def least_cost(instance: Instance, *, method: str = "brute") -> int:
    """Barrier time of the best work-conserving schedule, proved."""
    found = solve(instance, method=method, case="B", objective="time", work_conserving=True)
    assert found.optimal
    assert found.time_exact_s is not None
    assert found.time_exact_s.denominator == 1
    return int(found.time_exact_s)


def ratio_of(bad: BadInstance, *, method: str = "brute") -> Fraction:
    """The ratio, computed anew."""
    ours = replayed_cost(bad.instance, bad.router, bad.params)
    return Fraction(ours, least_cost(bad.instance, method=method))


def small_instances() -> Iterator[Instance]:
    """Three requests, smallest sizes first."""
    sizes = sorted(product((1, 5), (1, 3)), key=sum)
    triples = sorted(product(sizes, repeat=3), key=lambda three: sum(map(sum, three)))
    for requests in triples:
        for slots, ready in product((1, 2), ((0, 0, 0), (0, 0, 1), (0, 1, 2))):
            yield _instance(requests, ready, slots)


def random_instances() -> Iterator[Instance]:
    """Four requests, drawn."""
    rng = np.random.default_rng(SEED)
    for _ in range(RANDOM_INSTANCES):
        prompts, outputs = rng.integers(1, 13, size=4), rng.integers(1, 6, size=4)
        ready = np.sort(rng.integers(0, 3, size=4))
        pairs = tuple(zip(prompts.tolist(), outputs.tolist(), strict=True))
        yield _instance(pairs, (ready - ready[0]).tolist(), int(rng.integers(1, 3)))


def enumerated(routers: Sequence[Router] = ROUTERS) -> Iterator[BadInstance]:
    """The first worst instance of each router among all that are tried."""
    worst: dict[str, BadInstance] = {}
    for kind, instances in (("every", small_instances()), ("random", random_instances())):
        for instance in instances:
            least = least_cost(instance)
            for name, router, params in routers:
                ratio = Fraction(replayed_cost(instance, router, params), least)
                if name not in worst or ratio > worst[name].ratio:
                    found = f"enumeration, {kind} instance of {len(instance.requests)} requests"
                    worst[name] = BadInstance(name, router, params, instance, ratio, found)
    yield from worst.values()


def largest_peak_ratio(rule: Rule, *, replicas: int, requests: int) -> tuple[int, ...]:
    """Prompts whose peak ratio after one tick from empty no real prompts exceed.

    Raises
    ------
    AssertionError
        If the search does not end: no ratio of a small denominator is a largest one.
    """
    prompts: tuple[int, ...] | None = (1,) * requests
    for _ in _simple_ratios(replicas):
        assert prompts is not None
        case = Supremum(rule, replicas, Fraction(1), prompts)
        guess = replace(case, ratio=_next_simple(peak_ratio(case, prompts)))
        larger = _counterexample(guess, strict=False)
        if larger is None:
            attained = _counterexample(guess, strict=True)
            assert attained is not None, f"{guess.ratio} is a bound that nothing attains"
            return attained
        prompts = larger
    message = f"{rule}, {requests} requests: no largest ratio of a small denominator"
    raise AssertionError(message)


def solved() -> Iterator[BadInstance]:
    """What the solver ends with, as instances of one step."""
    for name, rule, replicas, requests in (
        ("br0-stage1-three-on-two", Rule(greedy=0), 2, 3),
        ("br0-stage1-four-on-three", Rule(greedy=0), 3, 4),
        ("br0-longest-four-on-two", Rule(greedy=0, longest=True), 2, 4),
        ("br0-stage2-three-on-two", Rule(greedy=99), 2, 3),
        ("br0-margin-first-stage2-three-on-two", Rule(greedy=99, margin_first=True), 2, 3),
    ):
        prompts = largest_peak_ratio(rule, replicas=replicas, requests=requests)
        yield tick_find(name, rule, prompts, replicas=replicas)


def tick_find(name: str, rule: Rule, prompts: tuple[int, ...], *, replicas: int) -> BadInstance:
    """One tick from empty as an instance: every request is ready at step 0 and has one token."""
    requests = tuple(OfflineRequest(i, 0, size, 1) for i, size in enumerate(prompts))
    instance = Instance(replicas, len(prompts), None, 1.0, 0.0, requests)
    params = {
        "greedy_threshold": rule.greedy,
        "key_order": "margin-first" if rule.margin_first else "slots-first",
        "stage1": "longest" if rule.longest else "f-score",
    }
    ratio = Fraction(replayed_cost(instance, "br0", params), least_cost(instance))
    found = "SMT, every path of one tick, every real prompt: no prompts have a larger peak ratio"
    return BadInstance(name, "br0", params, instance, ratio, found)


def main() -> None:
    wanted = sys.argv[1:]
    routers = [router for router in ROUTERS if not wanted or router[0] in wanted]
    for bad in (*([] if wanted else solved()), *enumerated(routers)):
        path = INSTANCES / f"{bad.name}.json"
        write_text_atomic(path, json.dumps(bad.to_json(), indent=1) + "\n")
        sys.stdout.write(f"{bad.name}: {bad.ratio}\n")


def _instance(
    pairs: tuple[tuple[int, int], ...], ready: tuple[int, ...] | list[int], slots: int
) -> Instance:
    requests = tuple(
        OfflineRequest(i, at, prompt, output)
        for i, ((prompt, output), at) in enumerate(zip(pairs, ready, strict=True))
    )
    return Instance(2, slots, None, 1.0, 1.0, requests)


def _simple_ratios(replicas: int) -> set[Fraction]:
    """What the search can guess: a peak ratio is at least 1, at most the number of replicas, and
    each guess is larger than the one before."""
    return {Fraction(n, d) for d in DENOMINATORS for n in range(d, replicas * d + 1)}


def _next_simple(ratio: Fraction) -> Fraction:
    """The least fraction of a small denominator that is at least this."""
    return min(Fraction(-(-ratio.numerator * d // ratio.denominator), d) for d in DENOMINATORS)


def _counterexample(case: Supremum, *, strict: bool) -> tuple[int, ...] | None:
    (program,) = ratio_programs([case], strict=strict)
    try:
        explore(program.run, assuming=program.assuming)
    except FalsifiedError as found:
        return _integers(found.model, len(case.witness))
    return None


def _integers(model: Any, count: int) -> tuple[int, ...]:
    """Prompts of a z3 model, scaled to integers; one it does not mention can be 1."""
    values = {str(name): model[name] for name in model}
    exact = [
        Fraction(v.numerator_as_long(), v.denominator_as_long()) if v is not None else Fraction(1)
        for v in (values.get(f"s{i}") for i in range(count))
    ]
    scale = lcm(*[value.denominator for value in exact])
    return tuple(int(value * scale) for value in exact)


if __name__ == "__main__":
    main()
