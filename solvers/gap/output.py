"""Files of a gap report: gap.json, gap.parquet, index.html and the worst instances."""

from pathlib import Path

import polars as pl

from brtheory.files import atomic_path, write_text_atomic
from solvers.gap.document import CaseFacts, GapDocument, GapFacts, RouterFacts
from solvers.gap.page import page_html

_INTEGER, _REAL = pl.Int64, pl.Float64
_GAP_COLUMNS = {
    "value": _INTEGER,
    "incumbent": _INTEGER,
    "bound": _INTEGER,
    "relative_least": _REAL,
    "relative_most": _REAL,
    "proved": pl.Boolean,
}
YARDSTICKS = (
    "same_admissions_time",
    "same_admissions_imbalance",
    "work_conserving_time",
    "any_admissions_time",
)
COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "case": pl.String,
    "family": pl.String,
    "synthetic": pl.Boolean,
    "requests": _INTEGER,
    "replicas": _INTEGER,
    "slots": _INTEGER,
    "a0": _REAL,
    "b0": _REAL,
    "unit_s": _REAL,
    "router": pl.String,
    **{f"{yard}_{name}": kind for yard in YARDSTICKS for name, kind in _GAP_COLUMNS.items()},
}
"""Columns of gap.parquet, one row an instance and router; null where the document has null."""


def write_gap(document: GapDocument, folder: Path) -> None:
    """Write every file of the report into ``folder``, each whole or not at all.

    Parameters
    ----------
    document
        The report.
    folder
        Made if missing; ``worst/ROUTER.json`` is the shrunk worst instance of a policy, a colon in
        its name turned into a hyphen.
    """
    page = page_html(document)
    write_text_atomic(folder / "gap.json", document.to_text())
    with atomic_path(folder / "gap.parquet") as part:
        gap_frame(document).write_parquet(part)
    write_text_atomic(folder / "index.html", page)
    for each in document.worst_observed:
        name = each.router.replace(":", "-")
        text = each.instance.model_dump_json(by_alias=True) + "\n"
        write_text_atomic(folder / "worst" / f"{name}.json", text)


def gap_frame(document: GapDocument) -> pl.DataFrame:
    """The gaps as a table, one row an instance and policy."""
    records = [_record(case, router) for case in document.cases for router in case.routers]
    return pl.DataFrame(records, schema=COLUMNS)


def _record(case: CaseFacts, router: RouterFacts) -> dict[str, object]:
    gaps = (
        router.same_admissions.barrier_time,
        router.same_admissions.imbalance,
        None if router.work_conserving is None else router.work_conserving.barrier_time,
        router.any_admissions.barrier_time,
    )
    record: dict[str, object] = {
        "case": case.name,
        "family": case.family,
        "synthetic": case.synthetic,
        "requests": case.requests,
        "replicas": case.replicas,
        "slots": case.slots,
        "a0": case.a0,
        "b0": case.b0,
        "unit_s": case.unit_s,
        "router": router.router,
    }
    for yard, gap in zip(YARDSTICKS, gaps, strict=True):
        record |= {f"{yard}_{name}": value for name, value in _columns(gap).items()}
    return record


def _columns(gap: GapFacts | None) -> dict[str, object]:
    if gap is None:
        return dict.fromkeys(_GAP_COLUMNS)
    return {
        "value": gap.value,
        "incumbent": gap.incumbent,
        "bound": gap.bound,
        "relative_least": gap.relative[0],
        "relative_most": gap.relative[1],
        "proved": gap.proved,
    }
