"""How fast ticks and runs are on this machine, measured on states like those of the paper."""
