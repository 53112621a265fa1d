"""Predictions of when a running request ends, and their contribution to projected loads."""
