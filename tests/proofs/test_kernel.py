"""The kernel layer: what Coq proved is what the manifest says, and any change is noticed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from brtheory.errors import InputError
from proofs.kernel import development
from proofs.kernel.bound import THEOREMS
from proofs.kernel.development import (
    MODULES,
    SOURCES,
    Theorem,
    recheck_with_library,
    theorems,
    unsound,
)
from proofs.kernel.manifest import (
    definitions_digest,
    proof_changes,
    read_manifest,
    record_of,
    source_changes,
    write_manifest,
)
from proofs.kernel.toolchain import PROVER, KernelError, missing, run_program
from proofs.layers.kernel import kernel
from proofs.ledger import run
from proofs.register import STATEMENTS
from proofs.statement import NOT_RUN_HERE, Method, Statement, Verdict, agrees

NAMES = tuple(sorted(THEOREMS))
MANIFEST = read_manifest()
EXTRACTED = {"T29", "N8"}
"""Their kernel layer runs the extracted program; it is no theorem."""
WITH_THEOREMS = [
    statement
    for statement in STATEMENTS
    if statement.id not in EXTRACTED
    and any(layer.method is Method.KERNEL for layer in statement.layers)
]
NIGHTLY = os.environ.get("BRTHEORY_NIGHTLY") == "1"
needs_coq = pytest.mark.skipif(missing(PROVER) != [], reason="coqc or coqchk not installed")

SUMMARY = """
CONTEXT SUMMARY
===============

* Theory: Set is predicative

* Axioms: <none>

* Constants/Inductives relying on type-in-type: <none>

* Constants/Inductives relying on unsafe (co)fixpoints: <none>

* Inductives whose positivity is assumed: <none>
"""
"""What coqchk -o writes of a development without axioms."""


@needs_coq
@pytest.mark.parametrize("name", NAMES)
def test_coq_proves_what_the_manifest_says(name: str):
    assert proof_changes(MANIFEST[name], theorems(NAMES)[name]) == []
    assert theorems(NAMES)[name].axioms == ()


@pytest.mark.parametrize("name", NAMES)
def test_definitions_and_product_code_are_those_of_the_manifest(name: str):
    """Needs no Coq. After a change that is meant: python -m proofs.kernel."""
    assert source_changes(name, MANIFEST[name]) == []


@needs_coq
@pytest.mark.parametrize("statement", WITH_THEOREMS, ids=lambda statement: statement.id)
def test_every_kernel_layer_of_theorems_finds_what_its_statement_stands_for(statement: Statement):
    for layer in statement.layers:
        if layer.method is Method.KERNEL:
            outcome = layer.check()
            assert agrees(outcome.verdict, expected=statement.expected), outcome.detail
            assert "no axioms" in outcome.detail


@needs_coq
@pytest.mark.slow
@pytest.mark.skipif(not NIGHTLY, reason="rechecks Coq's library: BRTHEORY_NIGHTLY=1")
def test_the_checker_accepts_the_development_with_all_of_the_library():
    assert "Axioms: <none>" in recheck_with_library()


def test_every_theorem_is_in_the_manifest_and_in_a_statement():
    assert set(MANIFEST) == set(THEOREMS)
    topics = "".join(path.read_text() for path in (SOURCES.parent / "topics").glob("*.py"))
    assert [name for name in NAMES if f'"{name}"' not in topics] == []


def test_every_source_is_part_of_the_development():
    assert {path.stem for path in SOURCES.glob("*.v")} == {*MODULES, "Extract"}


# -- what is planted must be noticed ---------------------------------------------------------------

NAME = "Imbalance.increment"
PROVED = Theorem(MANIFEST[NAME].statement, ())


def test_a_weakened_statement_is_noticed():
    weaker = Theorem(PROVED.statement.replace("0 <= delta", "0 < delta"), ())
    assert weaker != PROVED
    assert proof_changes(MANIFEST[NAME], PROVED) == []
    (line,) = proof_changes(MANIFEST[NAME], weaker)
    assert line.startswith("the statement changed")


def test_an_axiom_is_noticed():
    (line,) = proof_changes(MANIFEST[NAME], replace(PROVED, axioms=("classic",)))
    assert line == "the axioms changed: classic"


def test_a_changed_product_function_is_noticed():
    code = MANIFEST[NAME].code | {"brtheory.core.fscore.f_score": "0"}
    record = MANIFEST[NAME].model_copy(update={"code": code})
    assert source_changes(NAME, record) == ["brtheory.core.fscore.f_score changed"]


def _edited(tmp_path: Path, old: str, new: str, *, module: str = "Imbalance") -> Path:
    for path in SOURCES.glob("*.v"):
        text = path.read_text()
        if path.stem == module:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / path.name).write_text(text)
    return tmp_path


def test_a_bent_definition_is_noticed_in_every_file_that_needs_it(tmp_path: Path):
    bent = _edited(tmp_path, "count loads * peak loads - total", "count loads * peak loads + total")
    for module in ("Imbalance", "Conservation", "BalanceRoute"):
        assert definitions_digest(module, directory=bent) != definitions_digest(module)
    assert definitions_digest("Adversary", directory=bent) == definitions_digest("Adversary")


def test_another_proof_or_comment_does_not_change_the_definitions(tmp_path: Path):
    other = _edited(tmp_path, "  ring.\nQed.", "  (* why *) nia.\nQed.")
    assert definitions_digest("Imbalance", directory=other) == definitions_digest("Imbalance")


@needs_coq
def test_a_false_theorem_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    old = "= score (count loads) (margin loads g) delta."
    sources, built = _edited(tmp_path, old, old.replace("= ", "= 1 + ")), tmp_path / "built"
    built.mkdir()
    monkeypatch.setattr(development, "SOURCES", sources)
    with pytest.raises(KernelError, match="coqc"):
        development.compile_modules(built, ("Imbalance",))


@needs_coq
def test_an_axiom_of_ours_is_rejected_by_the_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cheat = "Axiom cheat : 0 = 1. Theorem wrong : 1 = 0. Proof. symmetry. exact cheat. Qed.\n"
    (tmp_path / "Cheat.v").write_text(cheat)
    monkeypatch.setattr(development, "SOURCES", tmp_path)
    monkeypatch.setattr(development, "MODULES", ("Cheat",))
    with pytest.raises(KernelError, match="coqchk is not content: Axioms"):
        theorems(("Cheat.wrong",))


def test_the_summary_of_the_checker_is_read_strictly():
    assert unsound(SUMMARY, axioms=True) == []
    heading = "Constants/Inductives relying on type-in-type"
    bad = SUMMARY.replace(f"{heading}: <none>", f"{heading}:\n    Kernel.Tick.tick")
    assert unsound(bad, axioms=False) == [heading]
    foreign = SUMMARY.replace("Axioms: <none>", "Axioms:\n    Coq.Logic.Classical_Prop.classic")
    assert unsound(foreign, axioms=False) == []
    assert unsound(foreign, axioms=True) == ["Axioms"]
    assert unsound("", axioms=False) == ["no summary"]


def test_a_machine_without_coq_shows_the_layer_as_not_run_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    layer = kernel("every G", NAME)
    statement = Statement("Z1", "A title", "claim", "x", "here", (layer,))
    (row,) = run([statement])
    assert row.layers[0].outcome is None
    assert row.layers[0].summary == f"kernel {NOT_RUN_HERE}"
    assert row.verdict is Verdict.OPEN


def test_a_program_that_is_missing_or_fails_says_so_in_one_line(tmp_path: Path):
    with pytest.raises(KernelError, match="no-such-program: not installed"):
        run_program(["no-such-program"], directory=tmp_path)
    with pytest.raises(KernelError, match="ls: "):
        run_program(["ls", "nothing here"], directory=tmp_path)


@needs_coq
def test_a_theorem_outside_the_manifest_proves_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("proofs.layers.kernel.read_manifest", dict)
    assert kernel("every G", NAME).check().verdict is Verdict.OPEN


def test_the_manifest_survives_a_round_trip(tmp_path: Path):
    path = tmp_path / "manifest.json"
    write_manifest({NAME: PROVED}, path)
    assert read_manifest(path) == {NAME: record_of(NAME, PROVED)} == {NAME: MANIFEST[NAME]}
    path.write_text('{"theorems": {"a": 1}}')
    with pytest.raises(InputError, match=r"manifest\.json:1"):
        read_manifest(path)
