# %% [markdown]
# # The barrier in ten minutes
#
# Large language models served with expert parallelism decode in lockstep: every step lasts as long
# as its fullest replica, and the others wait. A request stays on its replica for life and grows by
# one token a step. So the router decides how much of the cluster waits.

# %%
import os

from brtheory.core.imbalance import imbalance, margins
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.workload import ClusterShape
from brtheory.study.campaign import LoadCurves
from brtheory.study.choices import resolve_choices
from brtheory.study.figures.loads import load_curves
from brtheory.study.tasks import LoadSampler
from brtheory.traces.workloads import generate_workload

SMOKE = os.environ.get("BRTHEORY_NOTEBOOK_SIZE") == "smoke"

# %% [markdown]
# ## One step
#
# Four replicas hold KV tokens. The step takes `b0 + a0 * max(load)` seconds, so three of the four
# wait. The imbalance counts, in tokens, what they wait for together: `G * max - sum`.

# %% [markdown]
# Before you run anything: `tokens` here are KV-cache tokens, prompt plus what has been produced so
# far; a *step* makes one token for every running request; a *tick* is one decision of the router.

# %%
loads = [52_000, 41_000, 47_000, 30_000]
print("imbalance:", imbalance(loads))
print("margins: ", margins(loads))

# %% [markdown]
# A margin is what a replica can take before the step gets longer. Admitting `x` tokens to a replica
# with margin `m` changes the imbalance by `G * (x - m)+ - x`: up to the margin every token helps,
# beyond it every token makes three others wait.

# %%
for tokens in (10_000, 22_000, 30_000):
    after = [*loads[:3], loads[3] + tokens]
    print(f"{tokens:>6} tokens to the emptiest replica: imbalance {imbalance(after):>6}")

# %% [markdown]
# ## A cluster
#
# The same requests under two routers: join the shortest queue, which levels *requests*, and the
# window router, which levels *tokens*. Thin lines are replicas; the thick one is the fullest,
# which everybody waits for.

# %%
requests = generate_workload("azure-2023-conv", requests=600 if SMOKE else 4000, seed=0)
shape = ClusterShape(replicas=8, slots=32)


def watched(name):
    """Loads over time under a router, and the run's summary."""
    (choice,) = (
        choice
        for choice in resolve_choices((name,), mean_output_tokens=211, slots=32)
        if choice.label == name
    )
    sampler = LoadSampler(points=320)
    record = simulate(requests, RunConfig(name, shape), observers=(sampler,))
    return LoadCurves(choice, *sampler.sample()), summarise(record)


runs = {name: watched(name) for name in ("jsq", "window")}
load_curves([curve for curve, _ in runs.values()])

# %% [markdown]
# What to look at: the shaded band lies between the mean and the fullest replica. Its height is what
# the average replica waits in that step. Under JSQ some replica is always far above the rest,
# because requests differ in size and JSQ counts them all alike; under the window router the lines
# lie on one another until requests run out at the end.

# %% [markdown]
# ## What it costs
#
# Of the part of a step that grows with load, the idle share is what the average replica waits.
# These are simulated seconds under the default step time `b0 + a0 * max load`, not a measurement.

# %%
for name, (_, summary) in runs.items():
    loaded = summary["loaded_window"] or summary
    print(
        f"{name:>7}: mean imbalance {loaded['imbalance_mean_tokens']:>8,.0f} tokens,"
        f" idle {loaded['barrier_idle_fraction']:.1%},"
        f" {loaded['throughput_tokens_per_s']:,.0f} tokens/s"
    )

# %% [markdown]
# Now change something: `replicas=32` in the cluster above, another router name (`br0`,
# `least-tokens`), another workload (`brtheory workloads list`). On your own requests and with every
# router, seeds and intervals: `your_trace`.
#
# Next: `g_scaling` (why it gets worse with more replicas), `optimality_gap` (how much better anyone
# could do), `your_trace` (the same on a file of yours).
