# %% [markdown]
# # Your trace: what you lose at the barrier, and what would get it back
#
# Point `TRACE` at a file, or start Jupyter with `BRTHEORY_TRACE=my.csv`: Azure, BurstGPT, Mooncake,
# Qwen Bailian, vidur and ServeGen traces are recognised by content, anything else is read by column
# names. Then make the numbers below those of your cluster:
#
# * `REPLICAS`: data-parallel decode replicas that wait for one another.
# * `SLOTS`: requests a replica decodes at once, the engine's limit of running requests.
# * `B0`, `A0`: a step takes `B0 + A0 * tokens on the fullest replica` seconds; `brtheory calibrate`
#   measures both.
# * `ARRIVALS`: `closed:1.5` keeps half again as many requests in the system as there are slots;
#   `open:1` takes them as they come in the file.

# %%
import os
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from IPython.display import Markdown

from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study.campaign import Campaign, StudyConfig
from brtheory.study.figures.bars import imbalance_bars
from brtheory.study.choices import default_routers
from brtheory.study.comparison_table import COLUMNS, table_rows
from brtheory.study.findings import predicts
from brtheory.study.study import Invocation, run_study
from brtheory.study.supply import TraceSupply
from brtheory.study.wording import gain, ratio
from brtheory.traces.read import read_trace

TRACE = Path(os.environ.get("BRTHEORY_TRACE", "../docs/examples/trace.csv"))
REPLICAS, SLOTS = 2, 4
A0, B0 = 1.5e-7, 0.02
ARRIVALS = "closed:1.5"

# %%
read = read_trace(TRACE)
trace = read.trace
print(f"{trace.name}: {len(trace):,} requests")
print(
    f"mean prompt {trace.prompt_tokens.mean():,.0f}, mean output {trace.output_tokens.mean():,.0f}"
)
print(
    *read.notes,
    *(f"{rows} rows dropped: {reason}" for reason, rows in read.dropped.items()),
    sep="\n",
)

# %% [markdown]
# ## The study
#
# Every router over three seeds (a real trace starts at a random request and wraps around).

# %%
config = StudyConfig(
    shape=ClusterShape(REPLICAS, SLOTS),
    arrivals=parse_arrivals(ARRIVALS),
    step_time=StepTime(a0=A0, b0=B0),
    routers=default_routers(),
    seeds=3,
    requests=len(trace),
    scaling=(),
)
campaign = Campaign(config, TraceSupply(trace, read.notes))
document = run_study(
    campaign,
    Path(mkdtemp()),
    invocation=Invocation(command="notebook", started=datetime.now(UTC), workers=1),
)
imbalance_bars(document)

# %% [markdown]
# ## All figures
#
# Over the loaded window; bold is best. *Oracle* rows are told the true output lengths: bounds on
# what prediction could give, nothing one can deploy.

# %%
table = ["| router | " + " | ".join(column.title for column in COLUMNS) + " |"]
table.append("|---" * (len(COLUMNS) + 1) + "|")
for row in table_rows(document):
    texts = [f"**{cell.text}**" if cell.best else cell.text for cell in row.cells]
    table.append(f"| {row.title} | " + " | ".join(texts) + " |")
Markdown("\n".join(table))

# %% [markdown]
# ## Recommendation
#
# Among the routers that predict nothing: the one with the least imbalance, if it is surely better
# than JSQ, and the best of those that keep nobody waiting much longer than JSQ does. Two answers if
# they differ: balance can be bought with waiting, and the price is yours to judge.

# %%
MUCH_LONGER = 3


def figure(label, metric):
    """Mean of a router's metric over the seeds, and its ratio to JSQ's."""
    return document.estimate(label, metric)


better = sorted(
    (
        facts
        for facts in document.routers
        if not predicts(facts)
        and (balance := figure(facts.label, "imbalance_mean_tokens")) is not None
        and balance.ratio_high is not None
        and balance.ratio_high < 1
    ),
    key=lambda facts: figure(facts.label, "imbalance_mean_tokens").mean,
)
allowed_s = MUCH_LONGER * figure("jsq", "wait_max_s").mean
prompt = [facts for facts in better if figure(facts.label, "wait_max_s").mean <= allowed_s]
lines = [f"JSQ: longest wait {figure('jsq', 'wait_max_s').mean:.1f} s."]
for why, found in (("Least imbalance", better), (f"Waits within {MUCH_LONGER} × JSQ's", prompt)):
    if not found:
        lines.append(f"**{why}**: none surely better than JSQ. More requests, seeds or backlog?")
        continue
    label = found[0].label
    lines.append(
        f"**{why}: {found[0].title}** (`--router {label}`), "
        f"{ratio(figure(label, 'imbalance_mean_tokens').ratio_to_jsq)} of JSQ's imbalance, "
        f"{gain(figure(label, 'throughput_tokens_per_s'))} tokens per second, longest wait "
        f"{figure(label, 'wait_max_s').mean:.1f} s."
    )
Markdown("\n\n".join(lines))

# %% [markdown]
# ## What it says

# %%
Markdown("\n".join(f"* {finding.text}" for finding in document.findings))

# %% [markdown]
# What would change the answer: little backlog (`ARRIVALS = "open:0.8"`: nothing to choose from), a
# step time in which load hardly matters (small `A0` beside `B0`), a dense model (no barrier).
#
# The same on the command line, with a page to hand around:
#
#     brtheory study --trace FILE --replicas G --slots B --a0 A0 --b0 B0 --out results/mine
