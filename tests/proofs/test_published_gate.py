"""R9's published instance: what the product makes of it, so that its text is true."""

import pytest

from proofs.topics.refuted_horizon import R9, published_gate_sums


@pytest.mark.parametrize(("key_order", "peaks"), [("slots-first", 395), ("margin-first", 278)])
def test_the_published_instance_shows_no_loss_by_the_gate(key_order, peaks):
    """Both published sums are the product's, of both routers: the key order is what differs."""
    assert published_gate_sums(key_order) == (peaks, peaks)
    assert str(peaks) in R9.claim
