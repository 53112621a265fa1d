"""Layer 'kernel': theorems that Coq's kernel accepted, and the program extracted from them.

The development is compiled and rechecked, and what Coq prints of each theorem must be what the
manifest says; so must the definitions it uses and the production code it is bound to. A machine
without Coq cannot run the layer: the ledger then says 'not run here'.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from brtheory.errors import InputError
from brtheory.routers.backend import compiled_available
from brtheory.routers.fast import FastEngine
from proofs.kernel.bound import THEOREMS
from proofs.kernel.development import theorems
from proofs.kernel.manifest import proof_changes, read_manifest, source_changes
from proofs.kernel.oracle import ExtractedTick, first_disagreement
from proofs.kernel.toolchain import EXTRACTION, PROVER, KernelError, missing
from proofs.statement import Layer, Method, Outcome, Verdict

ORACLE_CASES = 50_000
ORACLE_SEED = 29


def kernel(scope: str, *names: str, general: bool = True) -> Layer:
    """Make a layer from theorems of the development.

    Parameters
    ----------
    scope
        For which cases they speak.
    names
        'Module.theorem', as in ``THEOREMS``.
    general
        Whether together they are the claim (``proved``) or a part of it (``checked``).
    """

    def check() -> Outcome:
        try:
            proved, manifest = theorems(tuple(sorted(THEOREMS))), read_manifest()
        except (KernelError, InputError) as error:
            return Outcome(Verdict.OPEN, str(error))
        for name in names:
            if name not in manifest:
                return Outcome(Verdict.OPEN, f"{name}: not in the manifest")
            record = manifest[name]
            changed = [*proof_changes(record, proved[name]), *source_changes(name, record)]
            if changed:
                return Outcome(Verdict.OPEN, f"{name}: {changed[0]}")
        axioms = sorted({axiom for name in names for axiom in proved[name].axioms})
        rests = "no axioms" if not axioms else f"axioms {', '.join(axioms)}"
        verdict = Verdict.PROVED if general else Verdict.CHECKED
        return Outcome(verdict, f"{', '.join(names)}; {rests}")

    return Layer(Method.KERNEL, scope, check, quick=False, available=lambda: missing(PROVER) == [])


def extracted_oracle(
    scope: str,
    *,
    cases: int = ORACLE_CASES,
    seed: int = ORACLE_SEED,
    engine: FastEngine | None = None,
) -> Layer:
    """Make a layer that compares the product's tick with the extracted one on random cases.

    Parameters
    ----------
    scope
        From which cases they are drawn.
    cases, seed
        How many, and the seed they are drawn with.
    engine
        Which fast engine of the product decides; None is its reference.
    """
    able = compiled_available() if engine == "compiled" else True

    def check() -> Outcome:
        try:
            with TemporaryDirectory(prefix="brtheory-oracle-") as name:
                program = ExtractedTick(Path(name))
                found = first_disagreement(program, cases, seed=seed, engine=engine)
        except KernelError as error:
            return Outcome(Verdict.OPEN, str(error))
        if found is not None:
            return Outcome(Verdict.REFUTED, "product and extracted tick differ", found)
        return Outcome(Verdict.CHECKED, f"{cases} random ticks decided alike")

    return Layer(
        Method.KERNEL,
        scope,
        check,
        quick=False,
        available=lambda: able and missing(EXTRACTION) == [],
    )
