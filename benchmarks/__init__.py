"""Benchmarks: ``python -m benchmarks.ticks`` measures, writes a table and draws a figure."""
