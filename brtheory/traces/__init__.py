"""Traces: readers for every published format, canonical files, descriptions, embedded workloads."""
