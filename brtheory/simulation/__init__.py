"""The barrier-step simulator: arrivals, replicas in lockstep, exact integer clock, metrics."""
