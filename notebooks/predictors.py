# %% [markdown]
# # Predictors: what they say, what happens, what the gate does
#
# BR-H asks a predictor two things about a running request: the probability that it ends within H
# steps, and the mean number of steps left if it does. They become one number, the contribution
# `c = (1 - p) * H + p * mu`; the gate replaces it by H where p is below one half.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown
from matplotlib_inline.backend_inline import set_matplotlib_formats

from brtheory.prediction.contribution import GATE, contribution
from brtheory.prediction.evaluation import evaluate
from brtheory.prediction.oracle import OraclePredictor
from brtheory.prediction.prequential import Timeline
from brtheory.prediction.protocol import Prediction
from brtheory.prediction.registry import PredictorOptions, build_online_predictor
from brtheory.routers.params import HorizonParams
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, simulate
from brtheory.simulation.workload import ClusterShape
from brtheory.traces.workloads import generate_workload

set_matplotlib_formats("svg")
SMOKE = os.environ.get("BRTHEORY_NOTEBOOK_SIZE") == "smoke"
HORIZON = 80

# %% [markdown]
# ## Online, in the order of time
#
# Requests run through a simulated cluster. A predictor is asked at admission and every H/2 steps of
# a request's life, and learns a length only when a request has ended: running ones are censored
# observations. Answers of the first half are not scored.

# %%
requests = generate_workload("azure-2023-conv", requests=800 if SMOKE else 6000, seed=0)
shape = ClusterShape(replicas=8, slots=32)
record = simulate(requests, RunConfig("pool-fifo", shape))
timeline = Timeline(
    prompt_tokens=requests.prompt_tokens,
    output_tokens=requests.output_tokens,
    admitted_step=record.admitted_step,
    prefix_id=requests.prefix_id,
)
predictors = {
    "survival": build_online_predictor("survival", horizon=HORIZON, options=PredictorOptions()),
    "learned": build_online_predictor("learned", horizon=HORIZON, options=PredictorOptions()),
    "oracle": OraclePredictor(dict(enumerate(requests.output_tokens.tolist()))),
}
results = {
    name: evaluate(timeline, predictor, horizon=HORIZON) for name, predictor in predictors.items()
}
for name, result in results.items():
    scores = result.scores
    error = f"MAE {scores.mae_steps:.1f} steps"
    print(f"{name:>9}: AUC {scores.auc:.3f}  Brier {scores.brier:.3f}  {error}")

# %% [markdown]
# ## Calibration
#
# A calibrated predictor that says 30 % is right three times in ten.

# %%
figure, panels = plt.subplots(1, 2, figsize=(7.4, 3.6), layout="constrained", sharey=True)
for axes, name in zip(panels, ("survival", "learned"), strict=True):
    scores = results[name].scores
    axes.plot([0, 1], [0, 1], "k:")
    axes.axvline(GATE, color="grey", linestyle="--", linewidth=1)
    bins = [b for b in scores.curve if b.count >= 30]
    areas = [8 + 400 * b.count / scores.predictions for b in bins]
    axes.scatter([b.mean_predicted for b in bins], [b.observed for b in bins], s=areas)
    axes.set(xlabel="predicted probability of ending within H", title=name)
panels[0].set_ylabel("share that did")
figure.show()

# %% [markdown]
# The area of a dot is the share of predictions in its tenth. Both predictors are honest: dots lie
# on the diagonal. But honesty is not knowledge. Most dots stand left of the gate (dashed), because
# few requests *probably* end soon, and the Brier score is near that of a constant that knows the
# share of requests that end:

# %%
for name, result in results.items():
    scores = result.scores
    share = scores.positives / scores.predictions
    past = sum(b.count for b in scores.curve if b.low >= GATE) / scores.predictions
    print(
        f"{name:>9}: Brier {scores.brier:.3f}, of a constant {share * (1 - share):.3f}; "
        f"past the gate {past:.1%}"
    )

# %% [markdown]
# ## What the gate does
#
# It only ever raises the contribution, to H. That is not conservative: a request that is kept in
# the projection raises the envelope, and with it the margins of every *other* replica (statements
# R8, R9).

# %%
probabilities = np.linspace(0, 1, 201)
figure, axes = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
for mean_remaining in (10, 40):
    plain = (1 - probabilities) * HORIZON + probabilities * mean_remaining
    gated = [
        contribution(Prediction(p, mean_remaining), horizon=HORIZON, gate=0.5)
        for p in probabilities
    ]
    colour = {10: "C0", 40: "C1"}[mean_remaining]
    axes.plot(probabilities, plain, ":", c=colour, label=f"without gate, mu = {mean_remaining}")
    width = {10: 1.5, 40: 3.0}[mean_remaining]
    axes.plot(probabilities, gated, c=colour, lw=width, label=f"with gate, mu = {mean_remaining}")
axes.set(xlabel="probability of ending within H, p", ylabel="contribution, steps")
axes.legend(frameon=False)
figure.show()

# %% [markdown]
# ## What it is worth
#
# The same router told by each predictor, with the gate and without, at a fixed horizon and at one
# that follows the load (`auto`), beside BR-0 and window, which ask for none. One seed: differences
# of a few per cent are noise here; `docs/results/ablation.json` has intervals.


# %%
def told(predictor, **settings):
    """BR-H with a predictor."""
    return RunConfig("brh", shape, params=HorizonParams(**settings), predictor=predictor)


runs = {
    "BR-0": RunConfig("br0", shape),
    "BR-H, H = 80, oracle": told("oracle"),
    "BR-H, H = 80, survival": told("survival"),
    "BR-H, H = 80, survival, no gate": told("survival", gate=None),
    "BR-H, H = auto, oracle": told("oracle", horizon="auto"),
    "BR-H, H = auto, survival": told("survival", horizon="auto"),
    "window": RunConfig("window", shape),
}
private = generate_workload("proprietary-surrogate", requests=400 if SMOKE else 1500, seed=0)
rows = ["| mean imbalance, tokens | Azure chat: short outputs | paper's private: long ones |"]
rows.append("|---|--:|--:|")
for name, config in runs.items():
    loaded = [summarise(simulate(trace, config)) for trace in (requests, private)]
    means = [(s["loaded_window"] or s)["imbalance_mean_tokens"] for s in loaded]
    rows.append(f"| {name} | {means[0]:,.0f} | {means[1]:,.0f} |")
Markdown("\n".join(rows))

# %% [markdown]
# What to read in it. Where outputs are short, looking 80 steps ahead is worse than not looking,
# even with the truth: by then most of what runs has not been admitted yet. `auto` mends that. Where
# outputs are long, the truth is worth much and survival nothing: hardly a prediction passes the
# gate, and without the gate every request seems to leave in the same few steps. So take BR-0 or
# window, unless a predictor has been shown to help on your requests:
#
#     brtheory predict evaluate --trace FILE --predictor learned
