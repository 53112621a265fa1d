"""The ledger: what ran, what did not run here, and how it is written down."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import z3
from typer.testing import CliRunner

from brtheory.cli.main import app
from brtheory.core.fscore import positive_part
from brtheory.errors import InputError
from proofs import cli
from proofs.layers.search import exhaustive
from proofs.layers.smt import Goal, smt
from proofs.ledger import Row, layer_count, recorded, run
from proofs.record import Record, read_record
from proofs.register import STATEMENTS
from proofs.report import to_html, to_json, to_markdown, write_ledger
from proofs.statement import NOT_RUN_HERE, Layer, Statement, Verdict

X = z3.Real("x")
SLOW = exhaustive("slow", lambda: ((1,),), lambda x: x == 1, quick=False)
FAST = smt("fast", lambda: [Goal(X + 1 > X, (), "a | b")])
CHECKED = Verdict.CHECKED
FALSE = exhaustive("planted", lambda: ((1,),), lambda x: x == 2)


def _statement(*layers, expected=Verdict.PROVED, claim="x | <y>") -> Statement:
    return Statement("Z1", "A title", claim, r"x \le y", "here", layers, expected=expected)


def _recorded(statement: Statement, record: Record, *, date: str, **options: bool) -> Record:
    """The record after a run of one statement that keeps each layer as it finishes."""
    now = [record]
    run(
        [statement],
        record=record,
        on_layer=lambda told, layer: now.append(recorded(told, layer, now[-1], date=date)),
        **options,
    )
    return now[-1]


def test_a_full_run_runs_every_layer_and_tells_of_each():
    told = []
    statements = [_statement(FAST, SLOW)]
    rows = run(statements, on_layer=lambda found, layer: told.append((found.id, layer.scope)))
    assert [row.verdict for row in rows] == [Verdict.PROVED]
    assert told == [("Z1", "fast"), ("Z1", "slow")]
    assert layer_count(statements) == len(told)


def test_a_quick_run_leaves_layers_out_and_never_passes_them():
    (row,) = run([_statement(FAST, SLOW)], quick=True)
    assert row.verdict is Verdict.OPEN
    assert row.layers[1].summary == f"search {NOT_RUN_HERE}"
    assert row.layers[1].outcome is None
    assert row.as_expected


def test_a_quick_run_shows_the_last_recorded_verdict_and_its_date():
    statement = _statement(FAST, SLOW)
    record = _recorded(statement, {}, date="2026-02-03")
    (row,) = run([statement], quick=True, record=record)
    assert row.verdict is Verdict.PROVED
    assert row.layers[1].summary == "search not run here (checked on 2026-02-03)"


NIGHT = replace(SLOW, scope="night", nightly=True)


def test_a_nightly_layer_runs_only_where_it_is_asked_for_and_the_statement_stands_without():
    statement = _statement(FAST, NIGHT)
    (row,) = run([statement])
    assert row.layers[1].summary == f"search {NOT_RUN_HERE}"
    assert row.verdict is Verdict.PROVED
    (row,) = run([statement], nightly=True)
    assert row.layers[1].summary == "search checked"
    (row,) = run([statement], quick=True, nightly=True)
    assert row.layers[1].outcome is None


def test_what_a_nightly_layer_found_is_kept_with_its_own_date():
    statement = _statement(FAST, NIGHT)
    record = _recorded(statement, {}, date="2026-02-03", nightly=True)
    record = _recorded(statement, record, date="2026-02-05")
    (row,) = run([statement], record=record)
    assert row.layers[1].summary == "search not run here (checked on 2026-02-03)"
    assert record["Z1"].layers["smt: fast"].date == "2026-02-05"


def test_what_a_nightly_layer_found_of_another_claim_is_not_kept():
    record = _recorded(_statement(FAST, NIGHT), {}, date="2026-02-03", nightly=True)
    bolder = _statement(FAST, NIGHT, claim="bolder")
    record = _recorded(bolder, record, date="2026-02-05")
    assert set(record["Z1"].layers) == {"smt: fast"}


def test_a_refuted_nightly_layer_counts_though_it_is_not_needed():
    false_at_night = replace(FALSE, nightly=True)
    (row,) = run([_statement(FAST, false_at_night)], nightly=True)
    assert row.verdict is Verdict.REFUTED
    assert not row.as_expected


def test_a_record_of_another_claim_is_not_used():
    record = _recorded(_statement(FAST, SLOW), {}, date="2026-02-03")
    (row,) = run([_statement(FAST, SLOW, claim="bolder")], quick=True, record=record)
    assert row.layers[1].verdict is None


def test_a_record_without_one_of_the_needed_layers_is_open():
    record = _recorded(_statement(FAST, SLOW), {}, date="2026-02-03", quick=True)
    assert set(record["Z1"].layers) == {"smt: fast"}
    assert record["Z1"].verdict == Verdict.OPEN


def test_a_layer_that_was_left_out_changes_nothing_in_the_record():
    statement = _statement(FAST, SLOW)
    record = _recorded(statement, {}, date="2026-02-03")
    assert _recorded(statement, record, date="2026-02-05", resume=True) == record


def _counted(scope: str, runs: list[str], *, value: int = 1, nightly: bool = False) -> Layer:
    """A layer that says when it runs, and is interrupted at 3."""

    def holds(x: int) -> bool:
        runs.append(scope)
        if x == 3:
            raise KeyboardInterrupt
        return x == 1

    return replace(exhaustive(scope, lambda: ((value,),), holds), nightly=nightly)


def test_an_interrupted_night_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs: list[str] = []
    path = tmp_path / "record.json"
    monkeypatch.setattr("proofs.cli.RECORD_PATH", path)

    def night(second: int, **options: bool) -> None:
        late = _counted("late", runs, value=second, nightly=True)
        layers = (_counted("first", runs), late, _counted("last", runs))
        monkeypatch.setattr("proofs.register.STATEMENTS", (_statement(*layers, expected=CHECKED),))
        cli.prove(nightly=True, record=True, as_json=True, **options)

    with pytest.raises(KeyboardInterrupt):
        night(3)
    assert set(read_record(path)["Z1"].layers) == {"search: first"}
    night(1)
    assert runs == ["first", "late", "late", "last"]
    assert read_record(path)["Z1"].verdict == CHECKED
    night(1)
    assert runs == ["first", "late", "late", "last"]
    night(1, again=True)
    assert runs[4:] == ["first", "late", "last"]


def test_a_layer_that_disagreed_is_run_again_and_so_is_one_of_other_code():
    runs: list[str] = []
    wrong = _statement(_counted("first", runs, value=2))
    record = _recorded(wrong, {}, date="2026-02-03")
    assert record["Z1"].verdict == Verdict.REFUTED
    _recorded(wrong, record, date="2026-02-03", resume=True)
    assert runs == ["first"] * 2
    right = _statement(_counted("first", runs))
    record = _recorded(right, {}, date="2026-02-03")
    _recorded(replace(right, about=(positive_part,)), record, date="2026-02-03", resume=True)
    assert runs == ["first"] * 4


def test_only_a_recorded_night_can_be_run_again():
    with pytest.raises(InputError, match="--nightly --record"):
        cli.prove(record=True, again=True)


def test_a_layer_that_disagrees_is_a_surprise():
    (row,) = run([_statement(FAST, FALSE)])
    assert row.verdict is Verdict.REFUTED
    assert [layer.scope for layer in row.surprises] == ["planted"]
    (row,) = run([_statement(FAST, expected=Verdict.REFUTED)])
    assert not row.as_expected


def test_the_json_says_what_was_run():
    (row,) = json.loads(to_json(run([_statement(FAST, SLOW)], quick=True)))
    assert (row["id"], row["claim"], row["verdict"]) == ("Z1", "x | <y>", "open")
    assert [layer["status"] for layer in row["layers"]] == ["run", NOT_RUN_HERE]
    assert row["layers"][1]["seconds"] is None
    assert row["seconds"] >= 0


def test_the_pages_escape_what_their_format_needs():
    rows = run([_statement(FAST)])
    assert "x \\| <y>" in to_markdown(rows, date="2026-02-03")
    page = to_html(rows, date="2026-02-03")
    assert "x | &lt;y&gt;" in page
    assert "1 statements; 1 proved. Run on 2026-02-03." in page


def test_every_formula_of_the_register_is_drawn():
    page = to_html([Row(statement, ()) for statement in STATEMENTS], date="2026-02-03")
    assert page.count("<math") == len(STATEMENTS)
    # What the converter does not know it leaves as it stands, with its backslash.
    formulas = re.findall(r"<math.*?</math>", page)
    assert not [formula for formula in formulas if re.search(r"\\[a-zA-Z]", formula)]


def test_the_ledger_is_written_with_the_solvers_inputs(tmp_path: Path):
    paths = write_ledger(run([_statement(FAST)]), tmp_path, date="2026-02-03")
    assert {path.relative_to(tmp_path).as_posix() for path in paths} == {
        "ledger.json",
        "ledger.md",
        "ledger.html",
        "smt2/Z1/a___b.smt2",
    }
    assert "(check-sat)" in (tmp_path / "smt2/Z1/a___b.smt2").read_text()


def test_the_command_explains_one_statement(tmp_path: Path):
    result = CliRunner().invoke(app, ["prove", "t3", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "Break-even" in result.output
    assert "f_score" in result.output
    assert (tmp_path / "ledger.json").exists()


def test_the_command_prints_json_rows():
    result = CliRunner().invoke(app, ["prove", "T9", "--quick", "--json"])
    (row,) = json.loads(result.stdout)
    assert (row["id"], row["verdict"]) == ("T9", "proved")


def test_the_command_fails_where_a_layer_disagrees(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("proofs.register.STATEMENTS", (_statement(FALSE),))
    result = CliRunner().invoke(app, ["prove"])
    assert result.exit_code == 1
    assert "counterexample" in result.output


def test_an_unknown_statement_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"T1, .*got 'T99'"):
        cli.prove(id="T99")


def test_a_quick_run_cannot_be_the_record():
    with pytest.raises(InputError, match="without --quick"):
        cli.prove(quick=True, record=True)


def test_the_register_is_what_the_command_runs():
    assert len(STATEMENTS) >= 37 + 14
