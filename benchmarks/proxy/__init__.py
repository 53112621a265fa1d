"""The proxy beside the direct upstream and other routers: ``python -m benchmarks.proxy``."""
