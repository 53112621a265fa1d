"""Certified lower bounds on the sum of peaks at production scale, and upper bounds beside them."""
