"""Machine-checked statements about the routers, bound to the production code."""
