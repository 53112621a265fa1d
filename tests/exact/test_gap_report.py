"""The gap command end to end: document, schema, table, page and worst instances."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import polars as pl
import pytest

from brtheory.contracts import read_contract
from brtheory.offline.instance import instance_from_document, instance_to_json, read_instance
from brtheory.study.provenance import Revision
from brtheory.traces.workloads import generate_workload
from solvers.gap.cuts import Cut, random_cut
from solvers.gap.document import GapDocument, HoldFacts, Provenance, json_schema_text
from solvers.gap.figures import YARDSTICKS, relative_curve
from solvers.gap.measure import placement_ratio
from solvers.gap.output import gap_frame
from solvers.gap.page import interval_text, page_html
from solvers.gap.report import Case, Order, gap_document
from solvers.gap.shares import mean_shares
from tests.cli_runner import Outcome, run_cli
from tests.exact.problems import tiny_instance

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "gap.schema.json"
ROUTERS = ("jsq", "br0", "brh", "brh:survival", "exact-tick")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """Two instance files and two cuts of a trace with a bad row, five routers, every file."""
    folder = tmp_path_factory.mktemp("gap")
    trace = folder / "mine.csv"
    rows = [f"{i},{50 + 37 * i % 90},{3 + 5 * i % 11}" for i in range(40)]
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join([*rows, "40,-3,4", ""]))
    files = [folder / f"tiny{seed}.json" for seed in range(2)]
    for seed, path in enumerate(files):
        instance = tiny_instance(seed, requests=6, replicas=2, slots=1)
        path.write_text(json.dumps(instance_to_json(instance)))
    options = [*files, "--trace", trace, "--on-error", "skip", "--cut-requests", 14]
    options += [word for name in ROUTERS for word in ("--router", name)]
    return run_cli("gap", *options, "--seeds", 2, "--out", folder / "out", "--json"), folder / "out"


@pytest.fixture(scope="module")
def document(done: tuple[Outcome, Path]) -> GapDocument:
    """What the command wrote, read strictly."""
    return read_contract(done[1] / "gap.json", GapDocument)


def test_json_on_standard_output_is_the_file(done: tuple[Outcome, Path]) -> None:
    """One document, nothing on standard error."""
    outcome, folder = done
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == json.loads((folder / "gap.json").read_text())


def test_the_published_schema_is_that_of_the_code(done: tuple[Outcome, Path]) -> None:
    """And the document fits it."""
    assert SCHEMA.read_text() == json_schema_text()
    jsonschema.validate(json.loads(done[0].out), json.loads(json_schema_text()))


def test_every_case_is_there_with_its_origin(document: GapDocument) -> None:
    """Trace cuts are not synthetic, the dropped row is noted, only small instances have a curve."""
    found = [(c.name, c.synthetic, c.requests, c.hold_curve is None) for c in document.cases]
    tiny = [("tiny0", None, 6, False), ("tiny1", None, 3, False)]
    assert found == [*tiny, *((f"mine.csv-{seed}", False, 14, True) for seed in range(2))]
    assert [r.router for r in document.cases[0].routers] == list(ROUTERS)
    assert len(document.settings.notes) == 1
    assert document.settings.notes[0].startswith("1 rows dropped")


def test_the_unlimited_end_of_the_curve_is_the_any_admissions_optimum(
    document: GapDocument,
) -> None:
    """Two solves of the same case B problem agree."""
    for case in document.cases[:2]:
        free = next(p for p in case.hold_curve if p.hold is None and not p.work_conserving)
        gap = case.routers[0].any_admissions.barrier_time
        assert (free.incumbent, free.bound, free.proved) == (gap.incumbent, gap.bound, True)


def test_summaries_are_means_of_the_cases(document: GapDocument) -> None:
    """Recomputed from the rows of the table."""
    frame = gap_frame(document)
    for summary in document.summary:
        mine = frame.filter(pl.col("router") == summary.router)
        low = mine["same_admissions_time_relative_least"]
        spread = summary.same_admissions_time
        assert spread.mean[0] == pytest.approx(low.mean(), rel=1e-12)
        assert spread.largest[0] == low.max()
        assert spread.defined[0] == low.len() - low.null_count() == summary.cases


def test_the_parquet_file_is_the_document_as_a_table(
    done: tuple[Outcome, Path], document: GapDocument
) -> None:
    """One row an instance and router, typed, equal numbers."""
    frame = pl.read_parquet(done[1] / "gap.parquet")
    assert frame.equals(gap_frame(document))
    assert frame.height == len(document.cases) * len(ROUTERS)
    row = frame.row(by_predicate=(pl.col("case") == "tiny1") & (pl.col("router") == "br0"),
                    named=True)  # fmt: skip
    gap = document.cases[1].routers[1].same_admissions.imbalance
    assert (row["same_admissions_imbalance_value"], row["same_admissions_imbalance_bound"]) == (
        gap.value,
        gap.bound,
    )


def test_worst_instances_show_their_ratio(
    done: tuple[Outcome, Path], document: GapDocument
) -> None:
    """The file holds the shrunk instance, which keeps 90 % of the ratio, measured again."""
    assert document.worst_observed
    for each in document.worst_observed:
        path = done[1] / "worst" / f"{each.router.replace(':', '-')}.json"
        instance = read_instance(path)
        assert instance == instance_from_document(each.instance)
        again = placement_ratio(instance, each.router, time_limit_s=20.0, seed=0)
        assert again == each.shrunk_ratio >= 0.9 * each.ratio > 0
        summary = next(s for s in document.summary if s.router == each.router)
        assert each.ratio == summary.same_admissions_time.largest[0]


class _Reader(HTMLParser):
    """Tags with their attributes, and references out of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(done: tuple[Outcome, Path]) -> str:
    """The HTML."""
    return (done[1] / "index.html").read_text(encoding="utf-8")


def test_the_page_is_self_contained_and_fits_screens(page: str) -> None:
    """No scripts, nothing loaded, dark mode, a viewport; identifiers are used once."""
    reader = _Reader()
    reader.feed(page)
    names = [tag for tag, _ in reader.tags]
    assert not {"script", "link", "img", "iframe"} & set(names)
    references = [v for _, a in reader.tags for k, v in a.items() if k in ("href", "xlink:href")]
    assert all(reference.startswith("#") for reference in references)
    assert "prefers-color-scheme: dark" in page
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        reader.tags
    )
    ids = [a["id"] for _, a in reader.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_every_drawing_says_what_it_shows(page: str, document: GapDocument) -> None:
    """Strips of three yardsticks, costs and the curve, each with a text that names the routers."""
    labels = re.findall(r'<svg [^>]*role="img" aria-label="([^"]+)"', page)
    assert len(labels) == len(YARDSTICKS) + 2
    for label in labels[: len(YARDSTICKS)]:
        assert all(name in label for name in document.settings.routers)


def test_the_page_labels_what_is_proved(page: str, document: GapDocument) -> None:
    """Any-admissions gaps of the cuts are intervals; means on the page are the document's."""
    assert "not a competitive ratio" in page
    assert ">proved</span>" in page
    # two-stage rule, no prediction, prediction error: policies compared, no optimum
    assert page.count(">measured</span></td>") == 3
    for summary in document.summary:
        assert f"<td>{interval_text(summary.any_admissions_time.mean)}</td>" in page
        low, high = summary.any_admissions_time.mean
        assert low < high


def test_shares_add_up_where_everything_is_measured(document: GapDocument) -> None:
    """Online + tick by tick + rule = BR-0's mean gap to the fastest conserving, over its time."""
    assert all(r.same_admissions.barrier_time.proved for c in document.cases for r in c.routers)
    shares = mean_shares(document)
    br0 = [case.routers[1].work_conserving.barrier_time for case in document.cases]
    for end in (0, 1):
        total = sum(gap.absolute[end] / gap.value for gap in br0) / len(br0)
        parts = sum(shares[name].ends[end] for name in ("online", "greedy_ticks", "two_stage_rule"))
        assert parts == pytest.approx(total, rel=1e-12)


def test_curves_are_drawn_over_the_best_known_without_a_limit(document: GapDocument) -> None:
    """12 of 10 is 20 % above it, its bound 8 is 20 % below; what is unknown has no point."""

    def point(hold: int | None, best: int | None, bound: int | None, busy: bool) -> HoldFacts:
        return HoldFacts(
            hold=hold, work_conserving=busy, feasible=best is not None, incumbent=best,
            bound=bound, proved=best is not None and best == bound,
        )  # fmt: skip

    curve = [
        point(0, None, None, False),
        point(4, 12, 8, False),
        point(None, 10, 10, False),
        point(None, 13, 13, True),
    ]
    case = document.cases[0].model_copy(update={"hold_curve": curve})
    found = [(label, round(low, 9), round(high, 9)) for label, low, high in relative_curve(case)]
    assert found == [("4", -0.2, 0.2), ("any", 0, 0), ("busy", 0.3, 0.3)]
    assert relative_curve(case.model_copy(update={"hold_curve": curve[:2]})) == []


def test_an_instance_file_is_measured_under_its_name(tmp_path: Path) -> None:
    """And a second file of the same name is refused."""
    instance = {
        "schema": "brtheory.instance/1", "replicas": 2, "slots": 1, "a0": 1e-7, "b0": 0.01,
        "requests": [{"id": i, "ready": 0, "prompt_tokens": 9 - i, "output_tokens": 2}
                     for i in range(4)],
    }  # fmt: skip
    path = tmp_path / "four.json"
    path.write_text(json.dumps(instance))
    outcome = run_cli("gap", path, "--router", "jsq", "--json")
    case = json.loads(outcome.out)["cases"][0]
    assert (case["name"], case["family"], case["synthetic"]) == ("four", "file", None)
    twin = tmp_path / "other" / "four.json"
    twin.parent.mkdir()
    twin.write_text(json.dumps(instance_to_json(read_instance(path))))
    refused = run_cli("gap", path, twin, "--router", "jsq")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "four twice" in refused.err


def test_an_instance_that_cannot_be_served_is_named_with_request_and_limit(tmp_path: Path) -> None:
    """50 prompt tokens never fit 20."""
    requests = [{"id": 7, "ready": 0, "prompt_tokens": 50, "output_tokens": 3}]
    instance = {"schema": "brtheory.instance/1", "replicas": 2, "slots": 2, "kv_capacity": 20,
                "a0": 1e-7, "b0": 0.01, "requests": requests}  # fmt: skip
    (tmp_path / "full.json").write_text(json.dumps(instance))
    outcome = run_cli("gap", tmp_path / "full.json", "--out", tmp_path / "out")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "full: request 7" in outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("time_limit_s", [0.0, 20.0])
def test_progress_adds_up_and_every_limit_gives_a_page(time_limit_s: float) -> None:
    """Replays, curve points and shrinking: as many units as planned; unproved gaps are lines."""
    small = tiny_instance(0, requests=6, replicas=2, slots=1)
    large = random_cut(generate_workload("azure-2023-conv", requests=20, seed=0),
                       Cut(requests=13), rng=np.random.default_rng(0))  # fmt: skip
    cases = [Case("small", "file", small, None), Case("large", "cut", large, True)]
    order = Order(cases, ["jsq", "br0"], time_limit_s)
    units: list[int] = []
    made = gap_document(order, provenance=lambda: PROVENANCE, on_done=units.append)
    # 2 cases x 2 routers, 7 points of the small one's curve, 2 worst instances
    assert sum(units) == order.planned == 2 * 2 + 7 + 2
    page = page_html(made)
    assert f">{'proved' if time_limit_s else 'interval'}</span></td>" in page


PROVENANCE = Provenance(
    command="brtheory gap",
    started="2026-01-01T00:00:00+00:00",
    revision=Revision(commit=None, dirty=None),
    versions={},
    wall_s=0.0,
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--router", "best"), "router: expected one of random"),
        (("--router", "br0", "--router", "br0"), "br0 twice"),
        (("--family", "huge"), "family: expected one of tiny"),
        (("--load", "-1"), "load: expected a number > 0"),
        (("--trace", "missing.csv"), "missing.csv"),
        (("--start", "3"), "--start"),
        (("--time-limit", "-1"), "--time-limit"),
        (("missing.json",), "missing.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Nothing is written."""
    outcome = run_cli("gap", "--out", tmp_path / "out", *arguments)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert message in outcome.err
    assert not (tmp_path / "out").exists()


def test_families_are_listed_and_help_teaches() -> None:
    """For people."""
    assert "adversarial" in run_cli("gap", "--family", "list").out
    assert "adversarial" in json.loads(run_cli("gap", "--family", "list", "--json").out)
    text = " ".join(run_cli("gap", "--help").out.split())
    for word in ("interval", "worst observed ratio", "brh:survival", "--trace"):
        assert word in text
