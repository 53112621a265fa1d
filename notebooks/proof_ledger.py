# %% [markdown]
# # The ledger of statements
#
# Every claim this package makes is data: what is claimed, which code it is about, which layers
# check it. A claim of the literature that is false stays in the ledger, refuted, with its smallest
# counterexample. `brtheory prove` runs all layers; this notebook reads the record of the last full
# run and runs a few of them.

# %%
from collections import Counter

from IPython.display import Markdown

from brtheory.core.fscore import f_score, one_step_weights
from brtheory.core.imbalance import imbalance, margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
from proofs.binding import changes, code_fingerprints, fingerprint
from proofs.ledger import run
from proofs.record import read_record
from proofs.register import STATEMENTS

record = read_record()
print(Counter(str(record[s.id].verdict) for s in STATEMENTS))

# %%
rows = ["| id | what | verdict | layers |", "|---|---|---|---|"]
for statement in STATEMENTS:
    entry = record[statement.id]
    layers = ", ".join(sorted({key.split(":")[0] for key in entry.layers}))
    rows.append(f"| {statement.id} | {statement.title} | {entry.verdict} | {layers} |")
Markdown("\n".join(rows))

# %% [markdown]
# ## One statement, checked here and now
#
# T1: admitting `x` tokens to a replica changes the imbalance by exactly minus the score. The quick
# layers run in this kernel; those that take minutes, or need Coq, say so.

# %%
(t1,) = (statement for statement in STATEMENTS if statement.id == "T1")
(row,) = run([t1], quick=True, record=record, on_layer=lambda _id, _layer: None)
print(t1.claim)
for layer in row.layers:
    print(" ", str(layer.method), "|", layer.scope, "|", layer.verdict)

# %% [markdown]
# ## What a statement is bound to
#
# A proof about code that has changed since is worth nothing, so each statement records a
# fingerprint of every function it rests on, followed through calls. Edit `f_score`, and a test
# fails and names the statements to prove again. A change that computes the same is still a change:

# %%
print(*code_fingerprints(t1), sep="\n")


def other_f_score(delta, margins, weights):
    """The score with >= where the product has >: the same numbers from another function."""
    overflows = [delta - margin if delta >= margin else 0 for margin in margins]
    costs = sum(w * o for w, o in zip(weights.overflow, overflows, strict=True))
    return weights.reward * delta - costs


print("\nrecorded ", record["T1"].code["brtheory.core.fscore.f_score"])
print("as it is ", fingerprint(f_score))
print("the other", fingerprint(other_f_score))
since = changes(t1, recorded_code=record["T1"].code, recorded_claim=record["T1"].claim)
print("changed since T1 was proved:", since or "nothing")

# %% [markdown]
# ## Refuted claims, to edit
#
# The cells from here on are yours: change the first line of each and run it again. Every claim
# sounds true and has a counterexample; find another one, or the region where the claim does hold.
#
# **"The longest prompt scores best" (R1).** Only while it fits the margin: try 2, then 3.

# %%
replicas, margin, prompts = 2, 0, [2, 3]

for prompt in prompts:
    print(f"prompt {prompt}: score {f_score(prompt, [margin], one_step_weights(replicas))}")

# %% [markdown]
# **"The scores of a tick add up" (R5).** One request goes to each replica. With margins taken once
# the sum of scores is not the gain; with margins taken again after each admission it is (T10).

# %%
loads, sizes = [3, 0], [4, 4]

frozen = margins(loads)
again, moved = [], list(loads)
for replica, size in enumerate(sizes):
    again.append(margins(moved)[replica])
    moved[replica] += size
for name, taken in (("once", frozen), ("again", again)):
    weights = one_step_weights(len(loads))
    scores = [f_score(x, [m], weights) for x, m in zip(sizes, taken, strict=True)]
    print(f"margins taken {name:>5}: scores {scores}, sum {sum(scores)}")
print("true gain:", imbalance(loads) - imbalance(moved))

# %% [markdown]
# **"With the guard every request is dispatched" (R10).** One slot on each of two replicas, two
# fresh prompts a tick, and one request that came first and is bigger. From which size on does it
# leave?

# %%
big, fresh, ticks = 1000, 50, 40

pool, left = [Request(id=0, prompt_tokens=big)], None
for tick in range(ticks):
    pool += [Request(id=1 + 2 * tick + i, prompt_tokens=fresh) for i in (0, 1)]
    state = TickState([[0], [0]], [1, 1], pool)
    admitted = {a.id for a in BalanceRoute(BalanceRouteParams()).tick(state)}
    pool = [request for request in pool if request.id not in admitted]
    left = tick if left is None and 0 in admitted else left
print(f"in {ticks} ticks never" if left is None else f"dispatched in tick {left}")

# %% [markdown]
# **"Take the replica with the most free slots first" (R4)** is the paper's order. With these loads,
# slots and prompts, slots first makes the imbalance worse and margin first does not.

# %%
loads, free_slots, prompts = [10_000, 500], [7, 3], [900] * 6


def after_tick(key_order):
    """Imbalance after one tick of BR-0."""
    pool = [Request(id=number, prompt_tokens=size) for number, size in enumerate(prompts)]
    router = BalanceRoute(BalanceRouteParams(key_order=key_order))
    moved = list(loads)
    for admission in router.tick(TickState([[load] for load in loads], free_slots, pool)):
        moved[admission.replica] += prompts[admission.id]
    return imbalance(moved)


print("before      ", imbalance(loads), "margins", margins(loads))
for order in ("slots-first", "margin-first"):
    print(f"{order:<12}", after_tick(order))

# %% [markdown]
# ## Every refuted claim
#
# What is true instead stands in brackets.

# %%
refuted = [s for s in STATEMENTS if str(record[s.id].verdict) == "refuted"]
Markdown("\n".join(f"* **{s.id}** {s.claim}" for s in refuted))
