"""Figures of the page: inline SVG whose text is text and whose colours are CSS variables."""
