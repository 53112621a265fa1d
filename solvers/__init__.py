"""Exact offline optima, bounds and certificates."""
