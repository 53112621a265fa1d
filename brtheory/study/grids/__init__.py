"""What each grid study runs and what it reads from its numbers: one module a study."""
