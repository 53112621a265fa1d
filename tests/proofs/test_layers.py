"""Each layer rejects what is false, what is vacuous and what it cannot decide."""

import pytest
import sympy as sp
import z3
from hypothesis import strategies as st

from proofs.formulas import reals, score_of
from proofs.layers.execution import Program, execution
from proofs.layers.executor import FalsifiedError, UndecidedError, explore
from proofs.layers.reals import Real, either, iff, named
from proofs.layers.search import by_sum, exhaustive, replayed, sampled, smallest_counterexample
from proofs.layers.smt import Goal, ask_cvc5, ask_z3, smt, smtlib
from proofs.layers.symbolic import nonnegative, positive, symbolic, zero
from proofs.product import score
from proofs.statement import Verdict

# The planted claim: 'F <= Delta - 1 once Delta exceeds the margin', false just beyond it.


def test_the_symbolic_layer_rejects_a_planted_false_identity():
    m, t = sp.symbols("m t", positive=True)
    outcome = symbolic("planted", lambda: [zero("over", score(2, m, m + t) - m)]).check()
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.witness is not None


def test_the_symbolic_layer_rejects_a_planted_false_sign():
    m, t = sp.symbols("m t", positive=True)
    for wrong in (nonnegative, positive):
        outcome = symbolic("planted", lambda wrong=wrong: [wrong("over", m - 2 * t)]).check()
        assert outcome.verdict is Verdict.REFUTED


def test_the_symbolic_layer_leaves_open_what_it_cannot_show():
    # True, since x^4 + y^4 >= x^3 y + x y^3, but no sum of non-negative terms shows it.
    x, y = sp.symbols("x y", positive=True)
    gap = x**4 + y**4 - x**3 * y - x * y**3 + sp.Rational(1, 10**9)
    assert symbolic("hard", lambda: [positive("all", gap)]).check().verdict is Verdict.OPEN


def test_the_smt_layer_rejects_a_planted_false_claim_with_a_model():
    replicas, margin, delta = reals("G m x")
    claim = score_of(replicas, margin, delta) <= delta - 1
    goal = Goal(claim, [replicas > 1, margin >= 0, delta > margin])
    outcome = smt("planted", lambda: [goal]).check()
    assert outcome.verdict is Verdict.REFUTED
    assert "x = " in (outcome.witness or "")


def test_the_smt_layer_catches_contradictory_hypotheses():
    x = z3.Real("x")
    outcome = smt("vacuous", lambda: [Goal(x == x + 1, [x > 0, x < 0])]).check()
    assert outcome.verdict is Verdict.OPEN
    assert "contradict" in outcome.detail


def test_the_smt_layer_never_passes_an_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("proofs.layers.smt.ask_cvc5", lambda text, seconds: "unknown")
    x = z3.Real("x")
    assert smt("one solver", lambda: [Goal(x + 1 > x)]).check().verdict is Verdict.OPEN


def test_the_solvers_read_the_same_text():
    x = z3.Real("x")
    for formula, answer in ((2 * x == 1, "sat"), (x * x < 0, "unsat")):
        assert ask_z3(formula)[0] == ask_cvc5(smtlib(formula)) == answer


def test_the_execution_layer_rejects_a_planted_false_claim():
    m, x = Real("m"), Real("x")

    def run():
        if x > m:
            yield "planted", score(2, m, x) <= x - 1

    outcome = execution("planted", lambda: [Program(run, [m >= 0])]).check()
    assert outcome.verdict is Verdict.REFUTED
    assert "x = " in (outcome.witness or "")


def test_the_execution_layer_catches_contradictory_assumptions():
    x = Real("x")
    program = Program(lambda: iter([("any", x > 5)]), [x > 0, x < 0])
    outcome = execution("vacuous", lambda: [program]).check()
    assert outcome.verdict is Verdict.OPEN
    assert "no model" in outcome.detail


def test_the_execution_layer_without_obligations_shows_nothing():
    outcome = execution("empty", lambda: [Program(lambda: iter(()), ())]).check()
    assert outcome.verdict is Verdict.OPEN


def test_the_executor_visits_every_path_once():
    # Four independent signs: 2^4 paths, of which C(4, k) have k positive reals.
    seen = []

    def run():
        seen.append(sum(bool(v > 0) for v in named("v", 4)))
        yield "at most four", seen[-1] <= 4

    assert explore(run).paths == 16
    assert [seen.count(k) for k in range(5)] == [1, 4, 6, 4, 1]


def test_the_executor_takes_no_infeasible_branch():
    # Of the eight answers to three comparisons only a > b > c > a and its reverse are impossible
    # when ties are excluded.
    def run():
        a, b, c = named("v", 3)
        seen.add((bool(a > b), bool(b > c), bool(c > a)))
        yield "not a cycle", (a > b) is not None

    seen: set[tuple[bool, ...]] = set()
    a, b, c = named("v", 3)
    explore(run, assuming=[a != b, b != c, c != a])
    assert len(seen) == 6
    assert not {(True,) * 3, (False,) * 3} & seen


def test_the_executor_refuses_a_program_with_too_many_paths():
    def run():
        sorted(named("v", 4))
        yield "nothing", True

    with pytest.raises(UndecidedError, match="paths"):
        explore(run, most_paths=3)


def test_a_path_budget_that_is_hit_leaves_the_layer_open():
    def run():
        sorted(named("v", 4))
        yield "nothing", True

    outcome = execution("short", lambda: [Program(run, most_paths=3)]).check()
    assert outcome.verdict is Verdict.OPEN
    assert "more than 3 paths" in outcome.detail


def test_the_executor_reports_inputs_that_falsify():
    def run():
        a, b = named("v", 2)
        yield "max is the first", max(a, b) == a

    with pytest.raises(FalsifiedError) as caught:
        explore(run)
    model = caught.value.model
    assert model.eval(z3.Real("v1") > z3.Real("v0"), model_completion=True)


def test_connectives_do_not_branch():
    def run():
        x = Real("x")
        yield "excluded middle", either(x > 0, x <= 0)
        yield "equivalence", iff(x > 0, x > 0)

    assert explore(run).paths == 1


def test_floats_are_refused_as_inexact():
    with pytest.raises(TypeError, match="exact number"):
        Real("x") + 0.5


@pytest.mark.parametrize(
    "layer",
    [
        exhaustive("planted", lambda: ((x,) for x in range(20)), lambda x: score(2, 3, x) >= x - 4),
        sampled("planted", st.tuples(st.integers(0, 99)), lambda x: score(2, 3, x) >= x - 4),
    ],
)
def test_the_search_layer_rejects_a_planted_false_claim_with_the_smallest_case(layer):
    # F(x) = x - 2 (x - 3)_+ >= x - 4 fails first at x = 6: 6 - 6 = 0 < 2.
    outcome = layer.check()
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.witness == "(6,)"


@pytest.mark.parametrize(
    "layer",
    [
        exhaustive("vacuous", lambda: ((x,) for x in range(20)), lambda x: None),
        sampled("vacuous", st.tuples(st.integers(0, 99)), lambda x: None),
        exhaustive("empty", lambda: (), lambda x: True),
    ],
)
def test_the_search_layer_shows_nothing_where_no_case_meets_the_hypotheses(layer):
    assert layer.check().verdict is Verdict.OPEN


def test_a_refutation_needs_exactly_the_named_smallest_counterexample():
    def layer(expected):
        return smallest_counterexample(
            "named", lambda: by_sum(1, low=0, high=9), lambda x: x < 6, expected=(expected,)
        )

    assert layer(6).check().verdict is Verdict.REFUTED
    assert layer(7).check().verdict is Verdict.OPEN


def test_a_true_claim_cannot_be_refuted_by_replay():
    assert replayed("named", lambda x: x == 1, case=(1,)).check().verdict is Verdict.OPEN


def test_cases_come_by_sum_and_completely():
    cases = list(by_sum(3, low=1, high=3))
    assert len(set(cases)) == len(cases) == 27
    assert [sum(case) for case in cases] == sorted(sum(case) for case in cases)


@pytest.mark.parametrize("layer", [symbolic("empty", list), smt("empty", list)])
def test_a_layer_without_obligations_shows_nothing(layer):
    assert layer.check().verdict is Verdict.OPEN
