"""Tests of the proofs: they hold, they bind, and what is false or changed is caught."""
