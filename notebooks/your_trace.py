# %% [markdown]
# # Your trace: what you lose at the barrier, and what would get it back
#
# Point `TRACE` at a file: Azure, BurstGPT, Mooncake, Qwen Bailian, vidur and ServeGen traces are
# recognised by content, anything else is read by column names. `REPLICAS` and `SLOTS` are those of
# your decode group; `A0` and `B0` those of your step time, which `brtheory calibrate` measures.

# %%
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from IPython.display import Markdown

from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study.campaign import Campaign, StudyConfig
from brtheory.study.figures.bars import imbalance_bars
from brtheory.study.choices import default_routers
from brtheory.study.study import Invocation, run_study
from brtheory.study.supply import TraceSupply
from brtheory.traces.read import read_trace

TRACE = Path("../docs/examples/trace.csv")
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
# ## What it says

# %%
Markdown("\n".join(f"* {finding.text}" for finding in document.findings))

# %% [markdown]
# The same on the command line, with a page to hand around:
#
#     brtheory study --trace FILE --replicas G --slots B --a0 A0 --b0 B0 --out results/mine
