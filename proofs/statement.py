"""A statement as data: what is claimed, where it comes from, which code it is about, who checks.

A verdict is about mathematics and code, never about effort: ``proved`` (for every case the claim
speaks of), ``checked`` (for every case of a stated finite or bounded scope), ``refuted`` (a
counterexample was found and replayed) and ``open`` (none of these; an unknown is open). A layer
that was not run has no verdict at all: it says 'not run here'.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

NOT_RUN_HERE = "not run here"


class Verdict(StrEnum):
    """What a layer, or all layers of a statement together, found."""

    PROVED = "proved"
    CHECKED = "checked"
    REFUTED = "refuted"
    OPEN = "open"


class Method(StrEnum):
    """How a layer checks."""

    SYMBOLIC = "symbolic"
    SMT = "smt"
    EXECUTION = "execution"
    SEARCH = "search"
    KERNEL = "kernel"
    CROSSHAIR = "crosshair"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a layer found.

    Parameters
    ----------
    verdict
        For a counterexample ``refuted``, for anything undecided ``open``.
    detail
        One line: how many obligations, paths or cases, or what went wrong.
    witness
        The counterexample as text, None without one.
    artifacts
        Pairs (file name, text) worth keeping, e.g. the solver's input.
    """

    verdict: Verdict
    detail: str
    witness: str | None = None
    artifacts: tuple[tuple[str, str], ...] = ()


def always() -> bool:
    """Say that a layer needs nothing this machine may lack."""
    return True


@dataclass(frozen=True, slots=True)
class Layer:
    """One independent check of a statement.

    Parameters
    ----------
    method
        How it checks.
    scope
        For which cases it speaks, in words: 'every real G >= 1', 'G = 2..8, all real loads'.
    check
        Runs it; deterministic.
    quick
        Whether it belongs to the layers that together fit in a minute.
    available
        Whether this machine has the programs it needs; where not, it is 'not run here'.
    nightly
        Whether it only widens the scope of others and takes so long that it runs at night. It is
        left out of other runs, and without it the statement has the verdict of its other layers.
    """

    method: Method
    scope: str
    check: Callable[[], Outcome]
    quick: bool = True
    available: Callable[[], bool] = always
    nightly: bool = False

    @property
    def key(self) -> str:
        """Name of the layer within its statement."""
        return layer_key(self.method, self.scope)


@dataclass(frozen=True, slots=True)
class Statement:
    """One claim.

    Parameters
    ----------
    id
        'T1' .. 'T37' for the theorems, 'R1' .. for refuted claims, 'N1' .. for new ones.
    title
        A few words.
    claim
        The claim in words; ``latex`` the same in LaTeX.
    hypotheses
        What it needs, one line each.
    source
        Where the claim comes from.
    about
        Production functions, classes or modules it speaks of; ``proofs.binding`` pins them.
    layers
        Independent checks.
    expected
        The verdict this project stands for; anything else is a failure.
    """

    id: str
    title: str
    claim: str
    latex: str
    source: str
    layers: tuple[Layer, ...]
    about: tuple[object, ...] = ()
    hypotheses: tuple[str, ...] = ()
    expected: Verdict = Verdict.PROVED


def layer_key(method: Method, scope: str) -> str:
    """Name of a layer within its statement."""
    return f"{method}: {scope}"


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict from those of the layers.

    A counterexample outweighs everything; an undecided layer leaves the statement open; otherwise
    it is proved if some layer proves it for every case, and checked if all are bounded.
    """
    found = set(verdicts)
    if not found:
        return Verdict.OPEN
    for verdict in (Verdict.REFUTED, Verdict.OPEN, Verdict.PROVED):
        if verdict in found:
            return verdict
    return Verdict.CHECKED


def agrees(verdict: Verdict, *, expected: Verdict) -> bool:
    """Whether one layer's verdict fits what the statement stands for.

    The layers of a refuted claim must each refute it; those of a true one may prove or check it.
    An open target expects nothing but that no layer refutes it.
    """
    if expected is Verdict.OPEN:
        return verdict is not Verdict.REFUTED
    if expected is Verdict.REFUTED:
        return verdict is Verdict.REFUTED
    return verdict in {Verdict.PROVED, Verdict.CHECKED}
