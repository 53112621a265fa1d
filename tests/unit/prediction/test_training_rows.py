"""Rows wait for their labels, and are used for all requests of a time or for none."""

import numpy as np
import pytest

from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.features import FEATURES
from brtheory.prediction.protocol import Running
from brtheory.prediction.training_rows import RowLog


def row(number):
    return np.full(len(FEATURES), float(number))


@pytest.fixture
def log():
    return RowLog(horizon=10, most_rows=100)


def sampled(log):
    """Number of the row and its label."""
    rows = log.labelled()
    return list(zip(rows.features[:, 0].astype(int).tolist(), rows.remaining.tolist(), strict=True))


def test_an_end_labels_every_open_row_of_its_request(log):
    log.sample(1, age=0, features=row(0))
    log.sample(1, age=5, features=row(1))
    log.sample(1, age=10, features=row(2))
    log.finish(1, output_tokens=13)
    # 13 steps were left at age 0: beyond 10, which 11 stands for; then 8, then 3.
    assert sampled(log) == [(0, 11), (1, 8), (2, 3)]


def test_a_request_that_goes_on_for_h_steps_labels_its_row(log):
    log.sample(1, age=0, features=row(0))
    log.survive([Running(Request(1, 5), 9)])
    assert sampled(log) == []
    log.survive([Running(Request(1, 5), 10)])
    assert sampled(log) == [(0, 11)]


def test_no_row_is_used_before_an_older_one_has_its_label(log):
    # Ends are known sooner than survivals: using the two ends now would favour ends.
    log.sample(1, age=0, features=row(0))
    log.sample(2, age=0, features=row(1))
    log.sample(3, age=0, features=row(2))
    log.finish(1, output_tokens=3)
    log.finish(3, output_tokens=2)
    assert sampled(log) == [(0, 3)]
    log.survive([Running(Request(2, 5), 10)])
    assert sampled(log) == [(0, 3), (1, 11), (2, 2)]


def test_rows_of_a_cancelled_request_are_lost_unless_h_steps_were_seen(log):
    log.sample(1, age=0, features=row(0))
    log.sample(1, age=5, features=row(1))
    log.sample(2, age=0, features=row(2))
    log.cut_short(1, output_tokens=11)
    log.finish(2, output_tokens=1)
    assert sampled(log) == [(0, 11), (2, 1)]


def test_asking_twice_at_one_age_samples_once(log):
    log.sample(1, age=5, features=row(0))
    log.sample(1, age=5, features=row(1))
    log.sample(1, age=4, features=row(2))
    log.finish(1, output_tokens=6)
    assert sampled(log) == [(0, 1)]


def test_the_oldest_rows_leave_first():
    log = RowLog(horizon=10, most_rows=3)
    for request in range(6):
        log.sample(request, age=0, features=row(request))
        log.finish(request, output_tokens=request + 1)
    assert sampled(log) == [(3, 4), (4, 5), (5, 6)]
    assert len(log) == 3


def test_sizes_below_one_are_refused():
    with pytest.raises(InputError, match="horizon"):
        RowLog(horizon=0, most_rows=3)
    with pytest.raises(InputError, match="most_rows"):
        RowLog(horizon=3, most_rows=0)
