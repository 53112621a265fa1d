"""Constraint programs solved by OR-Tools CP-SAT; nothing else imports OR-Tools."""
