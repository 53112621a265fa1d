"""Numbers about loads and studies that need no simulator: extremes, stationary law, statistics."""
