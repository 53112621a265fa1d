"""A live page for operators: loads, the barrier, what waits, and the router to choose.

``sampler`` and ``phases`` read the books and do no I/O; ``feed`` and ``routes`` are thin shells.
"""
