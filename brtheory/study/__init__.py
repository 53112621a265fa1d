"""Studies: routers side by side over seeds, kept in cells that survive an interruption.

``campaign`` runs, ``results`` is the document written, ``findings`` says in words what the numbers
say, ``report`` draws the page.
"""
