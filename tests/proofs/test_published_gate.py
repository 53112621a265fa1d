"""R9's instances: what the product makes of the published one and of the smallest."""

import pytest

from proofs.topics.refuted_horizon import R9, gate_sums


@pytest.mark.parametrize(("key_order", "peaks"), [("slots-first", 395), ("margin-first", 278)])
def test_the_published_instance_shows_no_loss_by_the_gate(key_order, peaks):
    """Both published sums are the product's, of both routers: the key order is what differs."""
    published = [(0, 12, 12), (1, 2, 6), (2, 7, 4), (3, 14, 10)]
    assert gate_sums(published, slots=3, horizon=8, key_order=key_order) == (peaks, peaks)
    assert str(peaks) in R9.claim


def test_the_smallest_instance_loses_by_the_gate():
    # Weights by step: A 1, 2, 3; B 1, 2 from step 1; C 4 at step 1. BR-0 puts B and C beside each
    # other: peaks 1 + max(2, 1 + 4) + max(3, 2) = 9; gated BR-H B to A: 1 + max(3, 4) + 5 = 10.
    assert gate_sums([(0, 1, 3), (1, 1, 2), (1, 4, 1)], slots=2, horizon=1) == (9, 10)
    assert "10 against 9" in R9.claim
