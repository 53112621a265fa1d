"""Layer 'execution': obligations on every path of the product's own code, for all real inputs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from proofs.layers.executor import MOST_PATHS, FalsifiedError, UndecidedError, explore
from proofs.layers.smt import model_text
from proofs.statement import Layer, Method, Outcome, Verdict

Obligations = Iterator[tuple[str, object]]
"""What a program yields: pairs (name, comparison of symbolic reals)."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program to explore.

    Parameters
    ----------
    run
        Calls product code on symbolic inputs and yields pairs (name, obligation).
    assuming
        Comparisons of symbolic reals, assumed of the inputs.
    name
        Tells the programs of one statement apart.
    most_paths
        With more the layer is open: what was not explored was not shown.
    """

    run: Callable[[], Iterable[tuple[str, object]]]
    assuming: Sequence[object] = ()
    name: str = "program"
    most_paths: int = MOST_PATHS


def execution(
    scope: str,
    programs: Callable[[], Iterable[Program]],
    *,
    general: bool = False,
    quick: bool = True,
    nightly: bool = False,
) -> Layer:
    """Make a layer that explores every path of every program.

    Parameters
    ----------
    scope
        For which cases the programs speak.
    programs
        Yields the programs.
    general
        Whether they cover every case of the claim (``proved``) or a bounded part (``checked``).
    quick, nightly
        See ``Layer``.
    """

    def check() -> Outcome:
        paths = obligations = 0
        for program in programs():
            try:
                seen = explore(
                    program.run, assuming=program.assuming, most_paths=program.most_paths
                )
            except FalsifiedError as error:
                what = f"{program.name}: fails: {error.name}"
                return Outcome(Verdict.REFUTED, what, model_text(error.model))
            except UndecidedError as error:
                return Outcome(Verdict.OPEN, f"{program.name}: {error}")
            paths += seen.paths
            obligations += seen.obligations
        if obligations == 0:
            return Outcome(Verdict.OPEN, "no obligation: nothing was shown")
        verdict = Verdict.PROVED if general else Verdict.CHECKED
        return Outcome(verdict, f"{obligations} obligations on {paths} paths")

    return Layer(Method.EXECUTION, scope, check, quick and not nightly, nightly=nightly)
