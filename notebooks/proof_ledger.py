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

from brtheory.core.imbalance import imbalance, margins
from brtheory.core.requests import Request
from brtheory.core.tick import TickState
from brtheory.routers.params import BalanceRouteParams
from brtheory.routers.reference import BalanceRoute
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
# ## A refuted claim, to edit
#
# "Take the replica with the most free slots first" is the paper's order. Put your own loads, slots
# and prompts here: with these, slots first makes the imbalance worse and margin first does not.

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
