"""Questions about linear forms: equal ones are equal, and their answers are those of arithmetic."""

import z3
from hypothesis import given
from hypothesis import strategies as st

from proofs.layers.executor import Point, explore
from proofs.layers.linear import (
    ANY,
    CONSTANT,
    NEGATIVE,
    POSITIVE,
    ZERO,
    KnownSigns,
    combined,
    constant,
    question,
    scaled,
    sign,
)
from proofs.layers.reals import Real, linear_condition, named

SIGNS = (NEGATIVE, ZERO, POSITIVE, NEGATIVE | ZERO, ZERO | POSITIVE, NEGATIVE | POSITIVE)
NUMBERS = st.fractions(-4, 4, max_denominator=6)
POINTS = st.fixed_dictionaries(dict.fromkeys("xyz", NUMBERS))
FORMS = st.dictionaries(st.sampled_from(["x", "y", "z", CONSTANT]), NUMBERS.filter(bool))


def _value(form, point):
    return sum(factor * {**point, CONSTANT: 1}[name] for name, factor in form.items())


@given(FORMS, POINTS, st.sampled_from(SIGNS))
def test_a_question_has_the_answer_of_the_form_it_asks_about(form, point, signs):
    key, asked = question(form, signs)
    value = _value(dict(key), point)
    assert bool(sign(value) & asked) == bool(sign(_value(form, point)) & signs)


@given(FORMS, NUMBERS.filter(lambda n: n > 0), st.sampled_from(SIGNS))
def test_multiples_ask_the_same_question(form, factor, signs):
    mirrored = {NEGATIVE: POSITIVE, POSITIVE: NEGATIVE, ZERO: ZERO}
    opposite = sum(mirrored[one] for one in mirrored if one & signs)
    assert question(scaled(form, factor), signs) == question(form, signs)
    assert question(scaled(form, -factor), opposite) == question(form, signs)


@given(FORMS, POINTS, st.sampled_from(SIGNS))
def test_the_solver_is_asked_the_same(form, point, signs):
    asked = question(form, signs)
    holds = bool(sign(_value(form, point)) & signs)
    solver = z3.Solver()
    solver.add(*[z3.Real(name) == z3.Q(v.numerator, v.denominator) for name, v in point.items()])
    assert (solver.check(linear_condition(asked)) == z3.sat) == holds
    assert solver.check() == z3.sat
    compared = {NEGATIVE: Real(form) < 0, POSITIVE: Real(form) > 0, ZERO: Real(form) == 0}
    if signs in compared:
        assert Point(solver.model()).satisfies(compared[signs]) == holds


def test_what_was_learned_answers_and_can_be_forgotten():
    known, form = KnownSigns(), combined({"x": 1}, constant(2), -1)
    undo = known.learn(question(form, POSITIVE | ZERO))
    assert known.answer(question(form, NEGATIVE)) is False
    assert known.answer(question(scaled(form, -3), ZERO | NEGATIVE)) is True
    assert known.answer(question(form, ZERO)) is None
    known.forget(undo)
    assert known.answer(question(form, NEGATIVE)) is None


def test_constants_answer_themselves():
    assert KnownSigns().answer(question(constant(3), POSITIVE)) is True
    assert KnownSigns().answer(question(constant(3), NEGATIVE | ZERO)) is False
    assert KnownSigns().answer(question({}, ZERO)) is True
    assert z3.is_true(linear_condition(question(constant(-1), NEGATIVE)))
    assert z3.is_false(linear_condition(question(constant(-1), ANY - NEGATIVE)))


def test_an_undecided_branch_is_explored_on_both_sides(monkeypatch):
    """Without answers from the solver every decision counts as open, and none is skipped."""
    seen = set()

    def run():
        a, b = named("v", 2)
        seen.add(bool(a > b))
        yield "taken", True

    real, calls = z3.Solver.check, []

    def undecided(solver, *assumptions):
        calls.append(assumptions)
        return real(solver) if len(calls) == 1 else z3.unknown

    monkeypatch.setattr(z3.Solver, "check", undecided)
    assert explore(run).paths == 2
    assert seen == {True, False}
