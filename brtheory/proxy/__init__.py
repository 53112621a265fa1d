"""A stateful OpenAI-compatible router in front of prefill and decode nodes.

The protocol core does no I/O: it neither awaits, nor opens sockets, nor reads a clock of its own.
Thin shells (``app``, ``upstream``, ``admin``) move its bytes.
"""
