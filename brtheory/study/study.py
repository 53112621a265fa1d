"""One study from conditions to the files in its folder: the entry point for the command line."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from brtheory.study.campaign import Campaign, RunCell, StationaryPoint, StudyConfig
from brtheory.study.cells import exclusive
from brtheory.study.choices import BASELINE, Choice
from brtheory.study.comparison import study_rows, summarise_rows
from brtheory.study.findings import best_router, find
from brtheory.study.invocation import Invocation
from brtheory.study.report import write_report
from brtheory.study.results import (
    Conditions,
    IndependentLoads,
    Provenance,
    RouterFacts,
    StudyDocument,
    TraceFacts,
    write_results,
)
from brtheory.study.tasks import params_values


def run_study(
    campaign: Campaign,
    folder: Path,
    *,
    invocation: Invocation,
    on_done: Callable[[int], None] = lambda _done: None,
) -> StudyDocument:
    """Run what is not yet in ``folder`` and write results.json, results.parquet and the page.

    Parameters
    ----------
    campaign
        What to compare, on which requests.
    folder
        Output folder; finished cells are kept under ``cells``.
    invocation
        Provenance, and the number of processes.
    on_done
        Called with the number of cells finished since the last call, ``campaign.planned()`` in all.

    Raises
    ------
    InputError
        If another study holds the folder.
    BrtheoryError
        If a run fails; finished cells are kept.
    """
    clock = time.perf_counter()
    with exclusive(folder), invocation.execution(folder, on_done) as execution:
        cells, points = campaign.run(execution)
        provenance = invocation.provenance(execution, since=clock)
        document = _document(campaign, cells, points, provenance=provenance)
        curves = campaign.loads(_shown(campaign, document), execution)
        provenance = invocation.provenance(execution, since=clock)
        document = document.model_copy(update={"provenance": provenance})
        write_results(document, folder)
        write_report(document, curves, folder=folder)
    return document


def _shown(campaign: Campaign, document: StudyDocument) -> list[Choice]:
    """JSQ and the best router besides it."""
    others = document.model_copy(
        update={"routers": [r for r in document.routers if r.label != BASELINE]}
    )
    best = best_router(others, predicted=True)
    labels = [BASELINE] if best is None else [BASELINE, best.label]
    return [choice for label in labels for choice in campaign.choices if choice.label == label]


def _document(
    campaign: Campaign,
    cells: Sequence[RunCell],
    points: Sequence[StationaryPoint],
    *,
    provenance: Provenance,
) -> StudyDocument:
    rows = study_rows(cells)
    document = StudyDocument(
        schema="brtheory.study/1",
        trace=_trace_facts(campaign),
        conditions=_conditions(campaign.config),
        routers=[_router_facts(choice, campaign) for choice in campaign.choices],
        findings=[],
        summaries=summarise_rows(rows),
        independent_loads=[
            IndependentLoads(
                replicas=point.replicas,
                excess_tokens=point.excess_tokens,
                standard_error_tokens=point.standard_error_tokens,
            )
            for point in points
        ],
        rows=rows,
        provenance=provenance,
    )
    return document.model_copy(update={"findings": find(document)})


def _trace_facts(campaign: Campaign) -> TraceFacts:
    trace = campaign.trace(0)
    return TraceFacts(
        name=trace.name,
        source=trace.source,
        synthetic=trace.synthetic,
        requests=len(trace),
        digests=campaign.digests(),
        prompt_tokens_mean=float(trace.prompt_tokens.mean()),
        output_tokens_mean=float(trace.output_tokens.mean()),
        notes=list(campaign.supply.notes(len(trace))),
    )


def _conditions(config: StudyConfig) -> Conditions:
    return Conditions(
        replicas=config.shape.replicas,
        slots=config.shape.slots,
        kv_capacity=config.shape.kv_capacity,
        arrivals=str(config.arrivals),
        scaling_arrivals=str(config.scaling_arrivals),
        a0=config.step_time.a0,
        b0=config.step_time.b0,
        seeds=list(range(config.seeds)),
        predictor=config.predictor,
    )


def _router_facts(choice: Choice, campaign: Campaign) -> RouterFacts:
    horizon = getattr(choice.params, "horizon", None)
    outputs = campaign.trace(0).output_tokens
    return RouterFacts(
        label=choice.label,
        title=choice.title,
        router=choice.spec.name,
        family=choice.spec.family,
        params=params_values(choice.params),
        oracle=choice.oracle,
        predictor=choice.predictor if choice.spec.needs_predictor else None,
        automatic_horizon=choice.automatic,
        outputs_within_horizon=None if horizon is None else float(np.mean(outputs <= horizon)),
    )
