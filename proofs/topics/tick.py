"""T27 - T29: the whole tick of the product against its specification, for all real inputs."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from brtheory.routers.reference import BalanceRoute, BalanceRouteHorizon
from proofs.layers.execution import Obligations, Program, execution
from proofs.layers.kernel import extracted_oracle, kernel
from proofs.layers.reals import named
from proofs.layers.search import exhaustive
from proofs.product import LIST, as_decisions, product_tick, sane
from proofs.specification import Rule, specified_tick
from proofs.statement import Statement, Verdict

MODEL = "model-and-routers, section 3"
RULES = (
    Rule(greedy=0),
    Rule(greedy=0, longest=True),
    Rule(greedy=2),
    Rule(greedy=2, margin_first=True),
    Rule(greedy=9),
    Rule(greedy=9, margin_first=True),
    Rule(greedy=9, window=2),
)
STAGE_1, BOTH_STAGES, STAGE_2 = RULES[:2], RULES[2:4], RULES[4:]
"""With four requests a variant has twenty times the paths it has with three."""


def _refinement(
    requests: int, caps: Sequence[tuple[int, ...]], rules: Sequence[Rule] = RULES
) -> Iterator[Program]:
    for slots, rule in product(caps, rules):
        loads, sizes = named("L", len(slots)), named("s", requests)

        def run(
            loads: Any = loads, sizes: Any = sizes, slots: Any = slots, rule: Any = rule
        ) -> Obligations:
            got = as_decisions(product_tick(loads, slots, sizes, rule=rule))
            want = specified_tick(loads, slots, sizes, rule=rule)
            yield "same requests, replicas, stages", [d[:3] for d in got] == [d[:3] for d in want]
            for mine, theirs in zip(got, want, strict=True):
                yield "same score", mine[3] == theirs[3]

        yield Program(run, sane(loads, sizes), f"slots {slots}, {rule}")


def _guarantees(
    loads: Sequence[Any], slots: Sequence[int], sizes: Sequence[Any], *, rule: Rule
) -> Iterator[tuple[str, object]]:
    admissions = product_tick(loads, slots, sizes, rule=rule)
    ids = [a.id for a in admissions]
    yield "nothing twice", len(set(ids)) == len(ids)
    yield "nothing invented", set(ids) <= set(range(len(sizes)))
    yield "dispatched = min(pool, slots)", len(ids) == min(len(sizes), sum(slots))
    for replica, cap in enumerate(slots):
        yield "slots respected", sum(a.replica == replica for a in admissions) <= cap


def _guarantee_programs(requests: int, caps: Sequence[tuple[int, ...]]) -> Iterator[Program]:
    for slots, rule in product(caps, RULES):
        loads, sizes = named("L", 2), named("s", requests)

        def run(
            loads: Any = loads, sizes: Any = sizes, slots: Any = slots, rule: Any = rule
        ) -> Obligations:
            yield from _guarantees(loads, slots, sizes, rule=rule)

        yield Program(run, sane(loads, sizes), f"slots {slots}, {rule}")


def _small_ticks() -> Iterator[tuple[Any, ...]]:
    one = product(((0,), (2,)), ((1,), (2,), (3,)))
    two = product(product((0, 1, 3), repeat=2), ((1, 1), (2, 1), (1, 2), (3, 0)))
    for loads, slots in (*one, *two):
        for requests in (0, 1, 2, 3):
            for sizes in product(range(1, 4), repeat=requests):
                for rule in RULES:
                    yield loads, slots, sizes, rule


def _guarantees_hold(
    loads: Sequence[int], slots: Sequence[int], sizes: Sequence[int], rule: Rule
) -> bool:
    return all(ok for _, ok in _guarantees(loads, slots, sizes, rule=rule))


def _refines(loads: Sequence[int], slots: Sequence[int], sizes: Sequence[int], rule: Rule) -> bool:
    got = as_decisions(product_tick(loads, slots, sizes, rule=rule))
    return got == specified_tick(loads, slots, sizes, rule=rule)


T27 = Statement(
    id="T27",
    title="What every tick guarantees",
    claim="Nothing is lost, nothing is dispatched twice, slots are respected, exactly "
    "min(pool, slots) requests are dispatched, and the tick ends.",
    latex=r"|\text{dispatched}| = \min(|\text{pool}|, S_{\mathrm{tot}})",
    hypotheses=("no KV capacity limit", "for the product: it decides as the rule does, T28, T29"),
    source=MODEL,
    about=(BalanceRoute,),
    layers=(
        execution(
            "G = 2, 2 requests, all real loads and prompts, 7 variants",
            lambda: _guarantee_programs(2, ((1, 1), (0, 1))),
        ),
        execution(
            "G = 2, 3 requests, all real loads and prompts, 7 variants",
            lambda: _guarantee_programs(3, ((1, 1), (2, 1), (0, 2))),
            quick=False,
        ),
        exhaustive("G = 1, 2, up to 3 requests, integers", _small_ticks, _guarantees_hold),
        kernel(
            "every valid and eager rule, and BR-0's and BR-H's rule is one",
            "Tick.tick_guarantees",
            "BalanceRoute.balance_route_guarantees",
        ),
    ),
)

T28 = Statement(
    id="T28",
    title="The product's tick is the specified tick",
    claim="For every load, prompt and variant the product decides exactly what the specification "
    "decides: replica, set, stage and score; so BR-0's rule is valid and eager.",
    latex=r"\mathrm{tick}_{\mathrm{product}} = \mathrm{tick}_{\mathrm{spec}}",
    source=MODEL,
    about=(BalanceRoute,),
    expected=Verdict.CHECKED,
    layers=(
        execution(
            "G = 2, 2 requests, all real loads and prompts, 7 variants",
            lambda: _refinement(2, ((1, 1), (2, 1))),
        ),
        execution(
            "G = 2, 3 requests, all real loads and prompts, 7 variants",
            lambda: _refinement(3, ((1, 1), (2, 1), (2, 2), (3, 1))),
            quick=False,
        ),
        execution(
            "G = 3, 2 requests, all real loads and prompts, 7 variants",
            lambda: _refinement(2, ((1, 1, 1), (2, 1, 0))),
            quick=False,
        ),
        execution(
            "stage 1, G = 2, 4 requests, all real loads and prompts, 2 variants",
            lambda: _refinement(4, ((2, 2),), STAGE_1),
            nightly=True,
        ),
        execution(
            "both stages, G = 2, 4 requests, all real loads and prompts, 2 variants",
            lambda: _refinement(4, ((2, 2),), BOTH_STAGES),
            nightly=True,
        ),
        execution(
            "stage 2, G = 2, 4 requests, all real loads and prompts, 3 variants",
            lambda: _refinement(4, ((2, 2),), STAGE_2),
            nightly=True,
        ),
        exhaustive("G = 1, 2, up to 3 requests, integers", _small_ticks, _refines),
        kernel(
            "the rule is valid and eager: every state, any weights and thresholds",
            "BalanceRoute.balance_route_valid",
            "BalanceRoute.balance_route_eager",
            "BalanceRoute.value_is_gain",
            general=False,
        ),
    ),
)

T29 = Statement(
    id="T29",
    title="The product's tick is the extracted tick",
    claim="The product's tick decides exactly what a program extracted from the kernel-checked "
    "rule decides: requests, replicas, stages and scores, on random cases of BR-0 and BR-H.",
    latex=r"\mathrm{tick}_{\mathrm{product}} = \mathrm{tick}_{\mathrm{extracted}}",
    hypotheses=("no KV capacity limit", "candidates oldest first", "OCaml's 63-bit integers"),
    source=LIST,
    about=(BalanceRoute, BalanceRouteHorizon),
    expected=Verdict.CHECKED,
    layers=(
        extracted_oracle("G = 1..5, up to 8 requests, H = 0..5, both key orders and stage-1 rules"),
    ),
)

STATEMENTS = (T27, T28, T29)
