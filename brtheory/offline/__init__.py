"""Offline instances with known output lengths, assignments, and the solver-free judge."""
