"""Routers: who decides which replica a request is bound to, and when.

``reference`` reads like the paper; ``baselines`` are what is run today; ``registry`` builds any of
them by name. Routers never see an output length.
"""
