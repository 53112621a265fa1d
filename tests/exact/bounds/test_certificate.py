"""Certificates: sound against every change, tight on tiny instances, checked by integers alone."""

import copy
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from brtheory.cli.main import app
from brtheory.errors import BrtheoryError
from brtheory.files import write_text_atomic
from brtheory.offline.assignment import assignment_to_json
from brtheory.offline.generate import random_instance
from brtheory.offline.instance import Instance, OfflineRequest, instance_to_json
from solvers.bounds.decompose import Effort, certified_bound
from solvers.bounds.plan import best_cover, candidate_windows, even_windows, event_steps
from solvers.bounds.steps import admission_steps, step_bound
from solvers.certificate import (
    CertificateDocument,
    RefutedError,
    check,
    leaf_bound,
    seal_of,
    window_bound,
    window_of,
)
from tests.exact.bounds.brute import every_assignment, smallest_sum_peak


def drawn(seed, *, requests=6, replicas=2, **sizes):
    instance = random_instance(
        np.random.default_rng(seed), requests=requests, replicas=replicas, slots=requests, **sizes
    )
    return instance, admission_steps(instance)


def plain(document):
    return document.model_dump(by_alias=True)


def sealed(data):
    """A certificate whose seal is right, as an adversary would make it."""
    document = CertificateDocument.model_validate(data)
    return document.model_copy(update={"seal": seal_of(document)})


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), replicas=st.integers(1, 3), events=st.integers(1, 8))
def test_a_certificate_is_accepted_and_never_above_the_optimum(seed, replicas, events):
    instance, steps = drawn(seed, replicas=replicas)
    document = certified_bound(instance, steps, effort=Effort(lengths=(events, events + 2)))
    assert check(instance, steps, document) == document.bound
    assert document.bound <= smallest_sum_peak(instance, steps)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_one_window_over_everything_proves_the_optimum_up_to_rounding(seed, replicas):
    """The only loss is 1/D in the multipliers: a complete tree leaves nothing relaxed but M >= L.

    A leaf with all requests placed has sum of y*L, which at LP optimality is sum_j of the largest
    sum over segment j of a replica's load; it is below sum_k M(k) where peaks cross inside j.
    Outputs of one step make every segment one step long, so nothing crosses.
    """
    instance, steps = drawn(seed, replicas=replicas, longest_output=1, latest_ready=3)
    document = certified_bound(instance, steps, effort=Effort(lengths=(100,), most_solved=10**6))
    optimum = smallest_sum_peak(instance, steps)
    assert optimum - document.bound <= 1 + optimum // 200


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_every_window_is_at_least_its_step_bound_and_its_work(seed):
    instance, steps = drawn(seed, requests=8, replicas=3)
    document = certified_bound(instance, steps, effort=Effort(lengths=(4,)))
    assert document.bound * instance.replicas >= instance.total_work
    stopped = certified_bound(instance, steps, effort=Effort(lengths=(4,), most_solved=1))
    assert stopped.bound <= max(document.bound, step_bound(instance, steps))


def numbers(value, path=()):
    """Paths of all numbers of a JSON value."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, (*path, key))
    elif isinstance(value, list):
        for key, item in enumerate(value):
            yield from numbers(item, (*path, key))


def changed(data, path, change):
    data = copy.deepcopy(data)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] += change
    return data


def small_certificate():
    instance, steps = drawn(5, requests=5, replicas=2, longest_output=6, latest_ready=4)
    document = certified_bound(instance, steps, effort=Effort(lengths=(5,)))
    assert any(window.tree is not None for window in document.windows)
    return instance, steps, document


@pytest.mark.parametrize("change", [1, -1])
def test_no_number_can_be_changed_even_by_who_renews_the_seal(change):
    instance, steps, document = small_certificate()
    optimum = smallest_sum_peak(instance, steps)
    for path in numbers(plain(document)):
        data = changed(plain(document), path, change)
        with pytest.raises((RefutedError, ValueError)):
            check(instance, steps, CertificateDocument.model_validate(data))
        try:
            proved = check(instance, steps, sealed(data))
        except (RefutedError, ValueError):
            continue
        # Only a window's borders can move and leave a proof of the very same claim.
        assert path[-1] in ("start", "end")
        assert proved == document.bound <= optimum


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_whatever_an_adversary_writes_nothing_above_the_optimum_is_accepted(data):
    """Two changes at once, the claims recomputed to fit: the checker's own arithmetic decides."""
    instance, steps, document = small_certificate()
    forged = plain(document)
    paths = [p for p in numbers(forged) if "tree" in p]
    for _ in range(2):
        path = data.draw(st.sampled_from(paths))
        forged = changed(forged, path, data.draw(st.integers(-300, 300)))
    for claim in forged["windows"]:
        window = window_of(instance, steps, start=claim["start"], end=claim["end"])
        try:
            claim["bound"] = window_bound(
                window, claim["tree"], replicas=instance.replicas, scale=claim["scale"]
            )
        except RefutedError:
            return
    forged["bound"] = sum(claim["bound"] for claim in forged["windows"])
    assert check(instance, steps, sealed(forged)) <= smallest_sum_peak(instance, steps)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_a_leaf_bounds_every_assignment_that_carries_its_labels(seed, data):
    """Random multipliers, not optimal ones: soundness may not rest on the LP."""
    instance, steps = drawn(seed, requests=5, replicas=3)
    last = max(steps[r.id] + r.output_tokens for r in instance.requests)
    start = data.draw(st.integers(0, last - 1))
    end = data.draw(st.integers(start + 1, last))
    window = window_of(instance, steps, start=start, end=end)
    labels = dict(
        zip(window.inside, data.draw(st.sampled_from([(), (0,), (0, 1), (0, 0)])), strict=False)
    )
    rows = 1 + max(labels.values(), default=-1) + 1
    scale = 12
    columns = []
    for _ in window.lengths:
        parts = sorted(
            data.draw(st.lists(st.integers(0, scale), min_size=rows - 1, max_size=rows - 1))
        )
        columns.append([b - a for a, b in zip([0, *parts], [*parts, scale], strict=True)])
    multipliers = [list(row) for row in zip(*columns, strict=True)]
    bound = leaf_bound(window, multipliers, labels, replicas=3, scale=scale)
    requests = {r.id: r for r in instance.requests}
    for assignment in every_assignment(instance, steps):
        placed = {p.id: p.replica for p in assignment}
        if any(placed[i] != g for i, g in labels.items()):
            continue
        peaks = 0
        for k in range(start, end):
            loads = [0] * 3
            for i, g in placed.items():
                if steps[i] <= k < steps[i] + requests[i].output_tokens:
                    loads[g] += requests[i].prompt_tokens + k - steps[i]
            peaks += max(loads)
        assert bound <= peaks


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (7, "an unknown node"),
        ({"request": 0}, "an unknown node"),
        ({"request": 99, "children": []}, "no request inside"),
        ({"request": True, "children": []}, "no request inside"),
        ({"request": 0, "children": []}, "a child is missing"),
        ({"multipliers": [[1]]}, "a row is cut"),
        ({"multipliers": []}, "a row is missing"),
        ({"multipliers": [[10, 10.0]]}, "no integer"),
        ({"multipliers": [[-1, 10]]}, "no integer"),
        ({"multipliers": [[9, 10]]}, "sum to the scale"),
    ],
)
def test_a_tree_that_is_none_is_refuted_with_its_fault(tree, message):
    requests = (OfflineRequest(0, 0, 4, 1), OfflineRequest(1, 0, 4, 2))
    instance = Instance(2, 2, None, 1.0, 0.0, requests)
    window = window_of(instance, {0: 0, 1: 0}, start=0, end=2)
    with pytest.raises(RefutedError, match=message):
        window_bound(window, tree, replicas=2, scale=10)


def test_a_request_placed_twice_is_refuted():
    requests = (OfflineRequest(0, 0, 4, 1), OfflineRequest(1, 0, 4, 2))
    window = window_of(Instance(2, 2, None, 1.0, 0.0, requests), {0: 0, 1: 0}, start=0, end=2)
    tree = {"request": 0, "children": [{"request": 0, "children": []}]}
    with pytest.raises(RefutedError, match="or twice on one"):
        window_bound(window, tree, replicas=2, scale=10)


def test_a_certificate_is_bound_to_its_instance_and_admissions():
    instance, steps, document = small_certificate()
    later = {**steps, 0: steps[0] + 1}
    with pytest.raises(RefutedError, match="other instance or admissions"):
        check(instance, later, document)
    other = Instance(3, instance.slots, None, instance.a0, instance.b0, instance.requests)
    with pytest.raises(RefutedError, match="other instance or admissions"):
        check(other, steps, document)


def test_parallel_and_sequential_certificates_are_the_same():
    instance, steps = drawn(11, requests=10, replicas=3)
    alone = certified_bound(instance, steps, effort=Effort(lengths=(4,)))
    calls = []
    pooled = certified_bound(
        instance,
        steps,
        effort=Effort(lengths=(4,), workers=2),
        on_progress=lambda *call: calls.append(call),
    )
    assert pooled == alone
    assert calls == [("prove", i + 1, len(alone.windows)) for i in range(len(alone.windows))]


def test_a_spent_time_limit_still_gives_a_valid_bound():
    instance, steps = drawn(3, requests=10, replicas=3)
    ticks = iter(range(10**9))
    document = certified_bound(
        instance,
        steps,
        effort=Effort(lengths=(6,), time_limit_s=1.0),
        clock=lambda: float(next(ticks)),
    )
    assert check(instance, steps, document) * instance.replicas >= instance.total_work


def test_a_scan_without_time_falls_back_to_even_windows():
    """The clock is past the scan's deadline at once, so no candidate gets the LPs it was due."""
    instance, steps = drawn(8, requests=14, replicas=3)
    ticks = iter(range(10**9))
    effort = Effort(lengths=(4, 6, 8), time_limit_s=0.5)
    document = certified_bound(instance, steps, effort=effort, clock=lambda: float(next(ticks)))
    spans = [(window.start, window.end) for window in document.windows]
    assert spans == even_windows(event_steps(instance, steps), events=6)


def test_even_windows_cover_every_step_once():
    instance, steps = drawn(2, requests=9)
    windows = even_windows(event_steps(instance, steps), events=3)
    assert windows[0][0] == min(steps.values())
    assert windows[-1][1] == max(steps[r.id] + r.output_tokens for r in instance.requests)
    assert all(a[1] == b[0] for a, b in pairwise(windows))


@settings(max_examples=60)
@given(
    cuts=st.lists(st.integers(0, 200), min_size=2, max_size=14, unique=True).map(sorted),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    stride=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_the_best_cover_is_the_best_of_all_chains(cuts, lengths, stride, seed):
    candidates = candidate_windows(cuts, lengths=lengths, stride=stride)
    rng = np.random.default_rng(seed)
    bounds = {span: int(rng.integers(100)) for ending in candidates for span in ending}
    cover = best_cover(candidates, bounds)
    assert (cover[0][0], cover[-1][1]) == (cuts[0], cuts[-1])
    assert all(a[1] == b[0] for a, b in pairwise(cover))

    def best_from(position):
        if position == cuts[-1]:
            return 0
        return max(
            (bounds[span] + best_from(span[1]) for span in bounds if span[0] == position),
            default=-(10**9),
        )

    assert sum(bounds[span] for span in cover) == best_from(cuts[0])


def test_bad_effort_and_empty_instances_are_refused():
    with pytest.raises(BrtheoryError, match="lengths"):
        Effort(lengths=(0,))
    with pytest.raises(BrtheoryError, match="at least one request"):
        certified_bound(Instance(2, 2, None, 1.0, 0.0, ()), {})


class TestCommand:
    """``brtheory certify`` from the outside."""

    @pytest.fixture
    def files(self, tmp_path):
        instance, steps, document = small_certificate()
        admissions = next(every_assignment(instance, steps))
        paths = [tmp_path / name for name in ("instance.json", "certificate.json", "a.json")]
        contents = (instance_to_json(instance), plain(document), assignment_to_json(admissions))
        for path, content in zip(paths, contents, strict=True):
            write_text_atomic(path, json.dumps(content))
        return [str(path) for path in paths], document

    def run(self, *arguments):
        return CliRunner().invoke(app, ["certify", *arguments])

    def test_accepts_and_says_what_is_proved(self, files):
        (instance, certificate, admissions), document = files
        result = self.run(instance, certificate, "--admissions", admissions, "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["bound"] == document.bound
        assert "valid" in self.run(instance, certificate).stdout

    def test_refutes_with_exit_code_1(self, files, tmp_path):
        (instance, _, _), document = files
        forged = tmp_path / "forged.json"
        data = changed(plain(document), ("bound",), 1)
        forged.write_text(json.dumps(plain(sealed(data))))
        result = self.run(instance, str(forged), "--json")
        assert result.exit_code == 1
        assert "its windows sum to" in json.loads(result.stdout)["reason"]
        assert "refuted" in self.run(instance, str(forged)).stdout

    def test_flipping_any_digit_of_the_file_makes_it_fail(self, files, tmp_path):
        (instance, certificate, _), _ = files
        text = Path(certificate).read_text()
        rng = np.random.default_rng(0)
        digits = [i for i, c in enumerate(text) if c.isdigit()]
        broken = tmp_path / "broken.json"
        for i in rng.choice(digits, size=40, replace=False):
            broken.write_text(text[:i] + str((int(text[i]) + 1) % 10) + text[i + 1 :])
            assert self.run(instance, str(broken)).exit_code != 0

    def test_the_command_loads_no_solver_and_no_numbers_library(self, files):
        (instance, certificate, admissions), _ = files
        code = (
            "import sys; from brtheory.cli.main import app; "
            "app(args=sys.argv[1:], standalone_mode=False); "
            "bad = {'numpy', 'scipy', 'highspy', 'ortools', 'pulp'} & set(sys.modules); "
            "sys.exit(', '.join(sorted(bad)) or 0)"
        )
        arguments = ["certify", instance, certificate, "--admissions", admissions, "--json"]
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["valid"]

    @pytest.mark.parametrize("checker", ["certificate", "work_certificate"])
    def test_a_checker_is_short_enough_to_be_read(self, checker):
        source = Path(sys.modules[check.__module__].__file__).with_name(f"{checker}.py")
        assert len(source.read_text().splitlines()) < 200
