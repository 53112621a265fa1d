"""Notebooks: percent-format sources beside the executed .ipynb, and what keeps them equal."""
