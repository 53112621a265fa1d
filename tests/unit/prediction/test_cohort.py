"""The rolling window of admissions: what it keeps, what it forgets, what it refuses."""

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.prediction.cohort import Cohort
from brtheory.prediction.refits import RefitPolicy


def samples(cohort, **ages):
    finished, censored = cohort.samples({int(k[1:]): age for k, age in ages.items()})
    return sorted(finished.tolist()), sorted(censored.tolist())


def test_every_request_is_finished_cut_short_or_censored_at_its_age():
    cohort = Cohort(10)
    for request in range(4):
        cohort.admit(request)
    cohort.finish(0, output_tokens=7)
    cohort.cut_short(1, output_tokens=5)  # its output is at least 5, so it exceeds 4
    assert samples(cohort, r2=3) == ([7], [0, 3, 4])
    assert cohort.finished == 1


def test_the_oldest_admission_leaves_first_whatever_its_state():
    cohort = Cohort(2, per_running=0)
    cohort.admit(0)
    cohort.admit(1)
    cohort.finish(1, output_tokens=4)
    cohort.admit(2)
    assert samples(cohort, r0=9, r2=1) == ([4], [1])
    cohort.admit(3)
    assert samples(cohort, r2=1, r3=0) == ([], [0, 1])
    assert len(cohort) == 2


def test_the_window_widens_with_what_runs_and_narrows_again():
    cohort = Cohort(2, per_running=3)
    for request in range(12):
        cohort.admit(request)
    # All twelve run: up to 36 may be kept.
    assert len(cohort) == 12
    for request in range(11):
        cohort.finish(request, output_tokens=request + 1)
    cohort.admit(12)
    # Two run: six are kept, 7 .. 12.
    assert samples(cohort, r11=2, r12=0) == ([8, 9, 10, 11], [0, 2])


def test_a_length_that_comes_after_its_request_left_the_window_is_no_error():
    cohort = Cohort(1, per_running=0)
    cohort.admit(0)
    cohort.admit(1)
    cohort.finish(0, output_tokens=4)
    assert samples(cohort, r1=2) == ([], [2])


def test_an_id_may_not_be_admitted_or_end_twice():
    cohort = Cohort(3)
    cohort.admit(0)
    with pytest.raises(InputError, match="id not admitted before, got 0"):
        cohort.admit(0)
    cohort.finish(0, output_tokens=1)
    with pytest.raises(InputError, match="has not ended before, got 0"):
        cohort.finish(0, output_tokens=1)
    with pytest.raises(InputError, match="id not admitted before"):
        cohort.admit(0)


@pytest.mark.parametrize("tokens", [0, -4])
def test_a_length_below_one_token_is_refused(tokens):
    cohort = Cohort(3)
    cohort.admit(5)
    with pytest.raises(InputError, match=f"output tokens of request 5: .* got {tokens}"):
        cohort.finish(5, output_tokens=tokens)
    with pytest.raises(InputError, match="at least 0, got -1"):
        cohort.cut_short(5, output_tokens=-1)


def test_sizes_below_one_are_refused():
    with pytest.raises(InputError, match="window"):
        Cohort(0)
    with pytest.raises(InputError, match="per_running"):
        Cohort(1, per_running=-1)
    with pytest.raises(InputError, match="refit_every"):
        RefitPolicy(0)


def refits(*, completions, sample):
    """Completions at which a refit was due."""
    policy, due = RefitPolicy(64), []
    for completion in range(1, completions + 1):
        policy.completed()
        if policy.due:
            policy.refitted(sample)
            due.append(completion)
    return due


def test_refits_become_rare_and_their_number_is_bounded():
    due = refits(completions=10_000, sample=2048)
    assert due[:4] == [1, 2, 3, 4]
    gaps = np.diff(due)
    assert gaps.max() == 64
    assert (np.diff(gaps) >= 0).all()
    # A growing phase in eighths up to 64 completions apart, then 10,000 / 64 = 156.
    assert len(due) < 156 + 50


def test_large_samples_are_refitted_once_in_a_share_of_their_size():
    due = refits(completions=100_000, sample=64_000)
    assert np.diff(due).max() == 64_000 // 32
