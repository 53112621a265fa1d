"""Grid studies: a plan of labelled cells in, one table, one document and one page out.

``plan`` says what to run, ``table`` makes rows and means over seeds, ``document`` is the contract,
``study`` runs it all; what one study asks and reads from the numbers is in
``brtheory.study.grids``.
"""
