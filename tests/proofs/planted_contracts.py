"""Contracts that crosshair must not pass: a false one, a vacuous one, one it cannot decide."""

from brtheory.core.fscore import f_score, one_step_weights


def a_true_one(margin: int, delta: int) -> None:
    assert margin >= 0 and delta >= 0  # noqa: PT018 - one precondition
    assert f_score(delta, [margin], one_step_weights(2)) <= margin


def a_false_one(margin: int, delta: int) -> None:
    """False just beyond the margin: F = m - 1 there."""
    assert margin >= 1 and delta >= 0  # noqa: PT018 - one precondition
    assert f_score(delta, [margin], one_step_weights(2)) != margin - 1 or delta < margin


def a_vacuous_one(value: int) -> None:
    assert value > 0 and value < 0  # noqa: PT018 - contradictory on purpose
    assert value == value + 1


def an_undecided_one(first: int, second: int, third: int) -> None:
    """No three cubes add up to this as far as anyone could tell in a second."""
    assert first > 0 and second > 0 and third > 0  # noqa: PT018 - one precondition
    assert first**3 + second**3 != third**3
