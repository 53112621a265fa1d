"""The simulator's loop as compiled code: the engine's results, at millions of requests a minute.

``plan`` says how requests arrive, ``support`` what compiled code covers, ``run`` runs it; the
other modules are kernels. Integers and clocks equal the engine's to the last bit.
"""
