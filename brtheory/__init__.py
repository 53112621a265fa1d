"""Barrier-aware routing for data-parallel LLM decode."""
