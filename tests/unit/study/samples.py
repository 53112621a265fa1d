"""Small studies made by hand, whose numbers can be read off."""

import numpy as np

from brtheory.simulation.run import RunConfig
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, StepTime
from brtheory.study.campaign import RunCell
from brtheory.study.choices import resolve_choices
from brtheory.study.comparison import study_rows, summarise_rows
from brtheory.study.provenance import Revision
from brtheory.study.results import (
    Conditions,
    Provenance,
    RouterFacts,
    StudyDocument,
    TraceFacts,
)
from brtheory.traces.schema import Trace

SHAPE = ClusterShape(replicas=2, slots=2)
STEP_TIME = StepTime(a0=0.001, b0=0.5)
ROUTERS = ("jsq", "pool-fifo", "br0", "brh:horizon=80", "brh:horizon=auto")


def small_trace(requests=60, *, seed=0, synthetic=False):
    """Random lengths, one arrival a second."""
    generator = np.random.default_rng(seed)
    return Trace(
        name="small.csv",
        source="made by hand",
        synthetic=synthetic,
        arrival_s=np.arange(requests, dtype=np.float64),
        prompt_tokens=generator.integers(1, 200, size=requests),
        output_tokens=generator.integers(1, 12, size=requests),
    )


def run_config(router="jsq", *, seed=0, params=None, arrivals="closed:2"):
    """A run on two replicas of two slots."""
    return RunConfig(
        router=router,
        shape=SHAPE,
        params=params,
        arrivals=parse_arrivals(arrivals),
        step_time=STEP_TIME,
        seed=seed,
    )


def metrics(imbalance, *, steps=10, peaks=100, wait_p50=1.0, wait_max=2.0, throughput=100.0):
    """Metrics of one scope with a given mean imbalance."""
    total = imbalance * steps
    return {
        "steps": steps,
        "requests": 5,
        "sum_peak_tokens": peaks,
        "imbalance_total_tokens": total,
        "imbalance_mean_tokens": float(imbalance),
        "barrier_idle_fraction": total / (SHAPE.replicas * peaks),
        "throughput_tokens_per_s": throughput,
        "tpot_p50_s": 0.020,
        "tpot_p95_s": 0.021,
        "tpot_p99_s": 0.022,
        "wait_p50_s": wait_p50,
        "wait_p99_s": wait_max,
        "wait_max_s": wait_max,
    }


def cells(windows):
    """Cells from label to the loaded windows of its seeds (None: empty)."""
    choices = {c.label: c for c in resolve_choices(tuple(windows), mean_output_tokens=6, slots=2)}
    return [
        RunCell(
            "routers",
            choice,
            run_config(choice.spec.name, seed=seed, params=choice.params),
            60,
            {**(window or metrics(7)), "loaded_window": window},
        )
        for (_, windows_of), choice in zip(windows.items(), choices.values(), strict=True)
        for seed, window in enumerate(windows_of)
    ]


def document(windows, *, within_horizon=0.9, synthetic=False, requests=400):
    """A document without findings from label to the loaded windows of its seeds."""
    made = cells(windows)
    choices = {cell.choice.label: cell.choice for cell in made}
    rows = study_rows(made)
    return StudyDocument(
        schema="brtheory.study/1",
        trace=TraceFacts(
            name="small.csv",
            source="made by hand",
            synthetic=synthetic,
            requests=requests,
            digests=["d0"],
            prompt_tokens_mean=100.0,
            output_tokens_mean=6.0,
            notes=["3 rows dropped: <zero> tokens"],
        ),
        conditions=Conditions(
            replicas=2,
            slots=2,
            kv_capacity=None,
            arrivals="closed:2",
            scaling_arrivals="closed:2",
            a0=STEP_TIME.a0,
            b0=STEP_TIME.b0,
            seeds=sorted({cell.config.seed for cell in made}),
            predictor="oracle",
        ),
        routers=[
            RouterFacts(
                label=choice.label,
                title=choice.title,
                router=choice.spec.name,
                family=choice.spec.family,
                params={"horizon": getattr(choice.params, "horizon", None)},
                oracle=choice.spec.needs_predictor,
                automatic_horizon=choice.automatic,
                outputs_within_horizon=within_horizon if choice.spec.needs_predictor else None,
            )
            for choice in choices.values()
        ],
        findings=[],
        summaries=summarise_rows(rows),
        independent_loads=[],
        rows=rows,
        provenance=Provenance(
            command="brtheory study --out 'a <b>'",
            started="2026-01-01T00:00:00+00:00",
            revision=Revision(commit=None, dirty=None),
            versions={"python": "3.11"},
            workers=1,
            wall_s=1.0,
            cell_wall_s=1.0,
            cells_computed=1,
            cells_reused=0,
        ),
    )
