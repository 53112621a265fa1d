"""The paper: Typst sources, and what puts generated numbers, tables and figures into them."""
