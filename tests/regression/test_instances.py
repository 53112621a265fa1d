"""Bad instances stay as bad as they were found: exact ratios, replayed and solved anew."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from proofs.specification import Rule
from tests.regression.bad_instances import (
    INSTANCES,
    ROUTERS,
    BadInstance,
    enumerated,
    largest_peak_ratio,
    ratio_of,
    read_bad_instance,
    small_instances,
)

PATHS = sorted(INSTANCES.glob("*.json"))
FINDS = [read_bad_instance(path) for path in PATHS]


@pytest.mark.parametrize("bad", FINDS, ids=lambda bad: bad.name)
def test_a_find_has_the_ratio_it_was_kept_for(bad: BadInstance):
    assert ratio_of(bad) == bad.ratio


@pytest.mark.parametrize("bad", FINDS, ids=lambda bad: bad.name)
def test_another_exact_method_agrees_on_the_optimum(bad: BadInstance):
    assert ratio_of(bad, method="milp") == bad.ratio


def test_every_router_has_a_find_and_files_are_named_after_them():
    assert [path.stem for path in PATHS] == [bad.name for bad in FINDS]
    assert {name for name, _, _ in ROUTERS} <= {bad.name for bad in FINDS}
    assert all(bad.found for bad in FINDS)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_file_survives_a_round_trip(path: Path):
    assert read_bad_instance(path).to_json() == json.loads(path.read_text(encoding="utf-8"))


def test_the_ratio_is_computed_from_the_instance():
    """A find with a request less is another instance: its ratio is not the recorded one."""
    bad = next(bad for bad in FINDS if bad.name == "br0-stage1-three-on-two")
    fewer = replace(bad.instance, requests=bad.instance.requests[:2])
    # Prompts 1 and 1 on two replicas: one each, as the best.
    assert ratio_of(replace(bad, instance=fewer)) == 1 < bad.ratio


def test_the_solver_ends_with_the_supremum_of_t35():
    # Two replicas, three requests, stage 1 by score: 1, 1, 2 gives (3, 1) against (2, 2).
    assert largest_peak_ratio(Rule(greedy=0), replicas=2, requests=3) == (1, 1, 2)


def test_enumeration_keeps_the_first_of_the_worst(monkeypatch: pytest.MonkeyPatch):
    some = [instance for i, instance in enumerate(small_instances()) if i % 60 == 0]
    monkeypatch.setattr("tests.regression.bad_instances.small_instances", lambda: iter(some))
    monkeypatch.setattr("tests.regression.bad_instances.random_instances", lambda: iter(()))
    for bad in enumerated():
        ratios = [ratio_of(replace(bad, instance=instance)) for instance in some]
        assert bad.ratio == max(ratios) >= Fraction(1) / 2
        assert bad.instance == some[ratios.index(max(ratios))]
