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
from IPython.display import Markdown

from brtheory.offline.evaluate import evaluate
from brtheory.offline.generate import random_instance
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from brtheory.simulation.replay import replay
from solvers.bounds.bracket import bracket
from solvers.bounds.decompose import Effort
from solvers.bounds.steps import admission_steps
from solvers.certificate import RefutedError, check, seal_of
from solvers.facade import solve
from solvers.gap.document import GapDocument
from solvers.gap.figures import YARDSTICKS, cost_bars, gap_strips, hold_lines
from solvers.gap.page import interval_text
from solvers.gap.shares import PARTS, mean_shares

SMOKE = os.environ.get("BRTHEORY_NOTEBOOK_SIZE") == "smoke"

# %% [markdown]
# ## An instance and its optimum, by four methods
#
# Brute force is the root of trust; the dynamic program, the MILP (HiGHS) and CP-SAT must agree with
# it. Every answer goes through the same solver-free judge.

# %%
instance = random_instance(np.random.default_rng(7), requests=7, replicas=2, slots=7)
for method in ("brute", "dp", "milp", "cpsat"):
    result = solve(instance, method=method, case="A", objective="imbalance", time_limit=60)
    judged = evaluate(instance, result.assignment)
    print(f"{method:>6}: optimum {result.incumbent}, judged {judged.imbalance_total}")

# %% [markdown]
# ## Three honest yardsticks
#
# *Same admissions*: the best replicas at the router's own admission steps. *Work-conserving*: the
# fastest schedule in which nobody waits beside a free slot. *Any admissions*: the fastest schedule
# of all, which may wait until every request is there. Imbalance is compared at the same admissions
# only: where admissions are free, holding requests back lowers imbalance and costs time.

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

# %% [markdown]
# A row is a router, a mark an instance: a dot where the optimum is proved, a line where a time
# limit left an interval; the black stroke is the median. Choosing replicas well is not the hard
# part: at their own admission steps good routers are within a few per cent of the best replicas,
# and `window`, which solves nothing, is near `exact-tick`, which solves each tick.

# %%
gap_strips(document, next(each for each in YARDSTICKS if each.name == "time-conserving"))

# %% [markdown]
# Against the fastest schedule in which nobody waits beside a free slot some intervals are long:
# with admission steps free, optima are proved on the smallest instances only, and an honest answer
# for the others is "between". Left of 0 a router waited, and gained by it.

# %% [markdown]
# ## Where the gap comes from
#
# BR-0's barrier time is taken apart: each part is the difference between two schedules. Deciding
# online, tick by tick and the two-stage rule sum to BR-0's gap to the fastest schedule in which
# nobody waits beside a free slot, exactly where the optima are proved; with not waiting, to its gap
# to the fastest of all.

# %%
rows = ["| part | compares | share of BR-0's time | instances |", "|---|---|---|---|"]
for name, share in mean_shares(document).items():
    shown = "-" if share is None else interval_text(share.ends)
    count = 0 if share is None else share.cases
    rows.append(f"| {PARTS[name].title} | {PARTS[name].meaning} | {shown} | {count} |")
Markdown("\n".join(rows))

# %%
cost_bars(document)

# %% [markdown]
# The largest part is that nobody waits: the fastest schedule of all lets the first request wait for
# the last, which no service does. Of what is left, tick by tick and the two-stage rule together are
# all that a better tick could gain.

# %% [markdown]
# ## What waiting could buy
#
# The fastest schedule when a request may wait at most so many steps, above the fastest with waits
# of any length; *busy*: no slot may stay empty while a request waits. A missing mark: no schedule
# keeps that limit.

# %%
hold_lines(document)

# %% [markdown]
# ## A certificate, and what happens to a forged one
#
# Where instances are too large to solve, the best replicas at given admission steps are bracketed:
# a lower bound from windows of time, an upper one from local search. The bound comes as a
# certificate. The checker below imports no solver and counts in integers; it recomputes every
# window's bound from the instance.

# %%
larger = random_instance(
    np.random.default_rng(3),
    requests=60,
    replicas=3,
    slots=4,
    longest_prompt=400,
    longest_output=40,
    latest_ready=40,
)
admitted = replay(larger, BalanceRoute(BalanceRouteParams()))
found = bracket(larger, admitted, rng=np.random.default_rng(0), effort=Effort(time_limit_s=5))
low, high = found.gap
print(f"sum of peaks: BR-0 {found.judged:,}, best known {found.incumbent:,}")
print(f"no assignment has less than {found.bound:,}")
print(f"so BR-0 is between {float(low):.1%} and {float(high):.1%} above the best replicas")

steps = admission_steps(larger, admitted)
check(larger, steps, found.certificate)
print("the certificate proves", f"{found.certificate.bound:,}")
forged = found.certificate.model_copy(update={"bound": found.certificate.bound + 1})
forged = forged.model_copy(update={"seal": seal_of(forged)})
try:
    check(larger, steps, forged)
except RefutedError as error:
    print("the forged one does not:", error)

# %% [markdown]
# On the command line: `brtheory bound INSTANCE ASSIGNMENT --certificate FILE`, and for anyone who
# doubts it `brtheory certify INSTANCE FILE --admissions ASSIGNMENT`.
#
# The largest ratio seen is a *worst observed ratio*, never a competitive ratio: with growing loads
# every router that binds at arrival loses a factor of G on some instance (statement T31).
