"""A statement is bound to the code it speaks of, and the record says when that code changed."""

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from brtheory.core import fscore
from brtheory.errors import InputError
from proofs.binding import code_fingerprints, fingerprint, reached
from proofs.record import LayerRecord, read_record, record_of, update_record, write_record
from proofs.register import STATEMENTS
from proofs.statement import Statement, Verdict

BY_ID = {statement.id: statement for statement in STATEMENTS}
RECORD = read_record()


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.id)
def test_the_record_is_of_this_claim_and_this_code(statement: Statement):
    """Fails when production code changed: prove the statement again with --record."""
    last = RECORD[statement.id]
    assert last.changes(statement) == []
    keys = {layer.key for layer in statement.layers}
    needed = {layer.key for layer in statement.layers if not layer.nightly}
    assert needed <= set(last.layers) <= keys
    assert last.verdict == statement.expected


def _loaded(path: Path, source: str) -> object:
    path.write_text(source)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def test_docstrings_and_comments_do_not_change_a_fingerprint_and_code_does(tmp_path: Path):
    plain = _loaded(tmp_path / "plain.py", "def f(x):\n    return x + x\n")
    told = _loaded(
        tmp_path / "told.py", 'def f(x):\n    """Double."""\n    # why\n    return (x +\n x)\n'
    )
    other = _loaded(tmp_path / "other.py", "def f(x):\n    return x - x\n")
    assert fingerprint(plain) == fingerprint(told) != fingerprint(other)


def test_where_a_module_is_imported_and_how_arguments_are_typed_change_no_fingerprint(
    tmp_path: Path,
):
    plain = _loaded(
        tmp_path / "plain.py", "import math\ndef f(x: int) -> int:\n    return math.isqrt(x)\n"
    )
    late = _loaded(
        tmp_path / "late.py", "def f(x: 'int'):\n    import math\n    return math.isqrt(x)\n"
    )
    default = _loaded(
        tmp_path / "default.py", "import math\ndef f(x: int = 1):\n    return math.isqrt(x)\n"
    )
    assert fingerprint(plain) == fingerprint(late) != fingerprint(default)


def test_a_fields_type_is_part_of_a_fingerprint(tmp_path: Path):
    kept, shared = (
        _loaded(tmp_path / f"{name}.py", f"def f():\n    class C:\n        x: {kind} = 1\n")
        for name, kind in (("kept", "int"), ("shared", "ClassVar[int]"))
    )
    assert fingerprint(kept) != fingerprint(shared)


def test_a_statement_rests_on_what_its_functions_call():
    names = set(code_fingerprints(BY_ID["T28"]))
    for needed in (
        "brtheory.core.fscore.positive_part",
        "brtheory.core.subsets.subset_masks",
        "brtheory.core.tick.TickLedger",
        "brtheory.routers.reference.BalanceRoute",
        "brtheory.routers.reference._admit",
    ):
        assert needed in names
    assert {code.__module__.split(".")[0] for code in reached(BY_ID["T28"].about)} == {"brtheory"}


def test_what_is_imported_where_it_is_used_is_followed(tmp_path: Path):
    source = "def f(x):\n    from brtheory.core.imbalance import peak as top\n    return top([x])\n"
    late = _loaded(tmp_path / "late.py", source)
    late.__module__ = __name__
    assert {code.__name__ for code in reached([late])} == {"f", "peak"}


def test_a_changed_function_is_named():
    statement = BY_ID["T3"]
    last = record_of(statement, date="2026-01-01", verdict=Verdict.PROVED, layers={})
    assert last.changes(statement) == []

    def f_score(delta: int, margins: list[int], weights: fscore.ScoreWeights) -> int:
        return delta

    f_score.__module__, f_score.__qualname__ = fscore.__name__, "f_score"
    changed = Statement(
        statement.id,
        statement.title,
        statement.claim,
        statement.latex,
        statement.source,
        statement.layers,
        (f_score, fscore.one_step_weights),
        statement.hypotheses,
        statement.expected,
    )
    assert "brtheory.core.fscore.f_score changed" in last.changes(changed)
    assert "brtheory.core.fscore.positive_part is gone" in last.changes(changed)


def test_an_edit_while_proofs_run_is_not_recorded_as_what_they_ran_on(tmp_path: Path):
    path = tmp_path / "edited.py"
    function = _loaded(path, "def f(x):\n    return x + x\n")
    before = fingerprint(function)
    path.write_text("def f(x):\n    return x - x\n")
    assert fingerprint(function) == before


def test_a_changed_claim_is_noticed():
    statement = BY_ID["T3"]
    last = record_of(statement, date="2026-01-01", verdict=Verdict.PROVED, layers={})
    bolder = Statement(
        statement.id,
        statement.title,
        statement.claim + " Always.",
        statement.latex,
        statement.source,
        statement.layers,
        statement.about,
        statement.hypotheses,
    )
    assert last.changes(bolder) == ["the claim or its layers changed"]


def test_the_record_survives_a_round_trip(tmp_path: Path):
    layers = {
        "smt: all": LayerRecord(
            verdict="proved", detail="2 obligations", seconds=0.5, date="2026-01-01"
        )
    }
    record = {
        "T3": record_of(BY_ID["T3"], date="2026-01-01", verdict=Verdict.PROVED, layers=layers)
    }
    write_record(record, tmp_path / "record.json")
    assert read_record(tmp_path / "record.json") == record
    assert read_record(tmp_path / "none.json") == {}


def test_two_runs_that_record_at_once_lose_nothing_of_each_other(tmp_path: Path):
    path = tmp_path / "record.json"
    ids = [statement.id for statement in STATEMENTS[:4]]

    def keep(name: str) -> None:
        for day in range(1, 9):
            date = f"2026-01-0{day}"
            new = record_of(BY_ID[name], date=date, verdict=Verdict.PROVED, layers={})
            update_record(lambda now, new=new: {**now, name: new}, path)

    with ThreadPoolExecutor(len(ids)) as several:
        list(several.map(keep, ids))
    assert {name: found.date for name, found in read_record(path).items()} == dict.fromkeys(
        ids, "2026-01-08"
    )


def test_a_damaged_record_is_refused_with_its_line(tmp_path: Path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"statements": {"T3": {"date": 7}}}, indent=1))
    with pytest.raises(InputError, match=r"record\.json:\d+"):
        read_record(path)
