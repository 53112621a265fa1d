"""The kernel-checked part: Coq sources, what they prove, and the program extracted from them."""
