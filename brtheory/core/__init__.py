"""The model: requests, replicas, the prompt pool, imbalance and the F-score, in exact integers.

Nothing here knows how long a request's output will be; truth lives in ``brtheory.offline``.
"""
