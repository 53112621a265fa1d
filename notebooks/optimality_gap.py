# %% [markdown]
# # How far from the best anyone could have done
#
# A router decides step by step. Someone who knew every request in advance could do better; how much
# better is a number on small instances, and an interval with a certificate on large ones.

# %%
import os
import subprocess
import sys

import numpy as np

from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from solvers.facade import solve
from solvers.gap.document import GapDocument
from solvers.gap.figures import YARDSTICKS, cost_bars, gap_strips, hold_lines

SMOKE = os.environ.get("BRTHEORY_NOTEBOOK_SIZE") == "smoke"

# %% [markdown]
# ## An instance and its optimum, by four methods
#
# Brute force is the root of trust; the dynamic program, the MILP (HiGHS) and CP-SAT must agree with
# it. Every answer goes through the same solver-free judge.

# %%
instance = random_instance(np.random.default_rng(7), requests=7, replicas=2, slots=7)
for method in ("brute", "dp", "milp", "cpsat"):
    result = solve(instance, method=method, case="A", objective="imbalance", time_limit=20)
    judged = evaluate(instance, result.assignment)
    print(f"{method:>6}: optimum {result.incumbent}, judged {judged.imbalance_total}")

# %% [markdown]
# ## Two honest yardsticks
#
# *Same admissions*: the best replicas at the router's own admission steps. *Any admissions*: the
# fastest schedule that serves every request. Imbalance is compared at the same admissions only:
# where admissions are free, holding requests back lowers imbalance and costs time.

# %%
families = ["tiny"] if SMOKE else ["tiny", "small", "heavy-tailed", "adversarial"]
routers = ["jsq", "br0", "brh", "brh:survival", "window", "exact-tick"]
command = [sys.executable, "-m", "brtheory.cli", "gap", "--json", "--time-limit", "5"]
command += [part for name in families for part in ("--family", name)]
command += [part for name in routers for part in ("--router", name)]
command += ["--seeds", "1" if SMOKE else "3"]
document = GapDocument.model_validate_json(
    subprocess.run(command, check=True, capture_output=True, text=True).stdout
)
gap_strips(document, YARDSTICKS[0])

# %%
gap_strips(document, YARDSTICKS[-1])

# %% [markdown]
# ## Where the gap comes from
#
# Deciding online, deciding greedily tick by tick, the two-stage rule: BR-0's gap is their sum,
# exactly where the optima are proved.

# %%
cost_bars(document)

# %% [markdown]
# ## What waiting could buy
#
# The fastest schedule when a request may wait at most so many steps.

# %%
hold_lines(document)

# %% [markdown]
# The largest ratio seen is a *worst observed ratio*, never a competitive ratio: with growing loads
# every router that binds at arrival loses a factor of G on some instance (statement T31).
