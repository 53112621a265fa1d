"""An emulated decode group with prefill servers in front: the wire of real engines, no GPU.

The core does no I/O and reads no clock: ``group`` (the barrier), ``kv`` (leases), ``faults``,
``plan`` and ``shapes`` (what an answer says). Thin shells move bytes: ``driver``, ``endpoint``,
``emulator``. It knows the true loads, so whoever watches from outside can be measured.
"""
