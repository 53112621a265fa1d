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
from matplotlib_inline.backend_inline import set_matplotlib_formats

from brtheory.prediction.contribution import contribution
from brtheory.prediction.evaluation import evaluate
from brtheory.prediction.oracle import OraclePredictor
from brtheory.prediction.prequential import Timeline
from brtheory.prediction.protocol import Prediction
from brtheory.prediction.registry import PredictorOptions, build_online_predictor
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
figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
axes.plot([0, 1], [0, 1], "k:", label="calibrated")
for (name, result), mark in zip(results.items(), "osD", strict=True):
    bins = result.scores.curve
    axes.plot([b.mean_predicted for b in bins], [b.observed for b in bins], marker=mark, label=name)
axes.set(xlabel="predicted probability of ending within H", ylabel="share that did")
axes.legend(frameon=False)
figure.show()

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
    axes.plot(probabilities, plain, ":", label=f"without gate, mu = {mean_remaining}")
    axes.plot(probabilities, gated, label=f"with gate, mu = {mean_remaining}")
axes.set(xlabel="p", ylabel="contribution, steps")
axes.legend(frameon=False)
figure.show()

# %% [markdown]
# ## What it is worth
#
# The same router told by each predictor, beside BR-0, which asks for none.

# %%
runs = {"br0": RunConfig("br0", shape)}
runs |= {f"brh, {name}": RunConfig("brh", shape, predictor=name) for name in ("survival", "oracle")}
runs["window"] = RunConfig("window", shape)
for name, config in runs.items():
    summary = summarise(simulate(requests, config))
    loaded = summary["loaded_window"] or summary
    print(f"{name:>14}: mean imbalance {loaded['imbalance_mean_tokens']:>8,.0f} tokens")
