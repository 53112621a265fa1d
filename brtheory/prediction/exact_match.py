"""Exact match: one law of output lengths per prompt-hash prefix, survival where that is unknown.

Memory is bounded: the least recently admitted prefix leaves first, and each keeps a small rolling
window. A prefix answers once enough of its requests have finished and one of them was longer than
the age asked for; otherwise the survival predictor answers.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from brtheory.core.cluster import IntArray
from brtheory.core.requests import Request
from brtheory.errors import InputError
from brtheory.prediction.cohort import Cohort
from brtheory.prediction.length_law import LengthLaw, kaplan_meier
from brtheory.prediction.protocol import Prediction, PrefixOf, Running
from brtheory.prediction.survival import SurvivalPredictor

NO_PREFIX = -1
DEFAULT_PREFIXES = 4096
DEFAULT_PREFIX_WINDOW = 128
DEFAULT_LEAST_FINISHED = 2


class _PrefixLaw:
    """The requests of one prefix and the law estimated from them at the last refit."""

    __slots__ = ("cohort", "law")

    def __init__(self, window: int) -> None:
        self.cohort = Cohort(window)
        self.law: LengthLaw | None = None

    def refit(self, ages: Mapping[int, int], *, least_finished: int) -> None:
        known = self.cohort.finished >= least_finished
        self.law = kaplan_meier(*self.cohort.samples(ages)) if known else None


class ExactMatchPredictor:
    """An ``OnlinePredictor`` that remembers prompts; its length is the number of prefixes kept.

    Parameters
    ----------
    prefix_of
        Prompt-hash prefix of a request, None where it has none.
    fallback
        Answers for unknown prefixes; it sees every event too.
    prefixes
        Most prefixes kept, >= 1.
    prefix_window
        Admitted requests kept per prefix, >= 1; more where many of it run at once.
    least_finished
        Finished requests of a prefix from which on it answers, >= 1.

    Raises
    ------
    InputError
        If a number is below 1.
    """

    def __init__(
        self,
        prefix_of: PrefixOf,
        *,
        fallback: SurvivalPredictor | None = None,
        prefixes: int = DEFAULT_PREFIXES,
        prefix_window: int = DEFAULT_PREFIX_WINDOW,
        least_finished: int = DEFAULT_LEAST_FINISHED,
    ) -> None:
        _check_at_least_one(
            prefixes=prefixes, prefix_window=prefix_window, least_finished=least_finished
        )
        self._prefix_of = prefix_of
        self._fallback = SurvivalPredictor() if fallback is None else fallback
        self._prefixes = prefixes
        self._prefix_window = prefix_window
        self._least_finished = least_finished
        self._laws: OrderedDict[int, _PrefixLaw] = OrderedDict()
        self._changed: set[int] = set()

    def __len__(self) -> int:
        return len(self._laws)

    @property
    def fallback(self) -> SurvivalPredictor:
        """The predictor that answers for unknown prefixes."""
        return self._fallback

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        """Predict from the law of the request's prefix, from survival where that says nothing."""
        law = self.law_of(request)
        if law is None or age >= law.longest:
            return self._fallback.predict(request, age=age, horizon=horizon)
        return law.predict(age=age, horizon=horizon)

    def law_of(self, request: Request) -> LengthLaw | None:
        """The law of the request's prefix, None where too little is known of it."""
        known = self._find(request)
        return None if known is None else known.law

    def finished_of(self, request: Request) -> int:
        """Finished requests of the request's prefix that are remembered."""
        known = self._find(request)
        return 0 if known is None else known.cohort.finished

    def observe_admitted(self, request: Request) -> None:
        """Remember the request under its prefix, which becomes the most recent one."""
        self._fallback.observe_admitted(request)
        prefix = self._prefix_of(request)
        if prefix is None:
            return
        if prefix not in self._laws:
            self._laws[prefix] = _PrefixLaw(self._prefix_window)
        self._laws[prefix].cohort.admit(request.id)
        self._laws.move_to_end(prefix)
        if len(self._laws) > self._prefixes:
            forgotten, _ = self._laws.popitem(last=False)
            self._changed.discard(forgotten)

    def observe_finished(self, request: Request, *, output_tokens: int) -> None:
        """Learn a length; nothing is kept for a prefix forgotten meanwhile."""
        self._fallback.observe_finished(request, output_tokens=output_tokens)
        known = self._find(request)
        if known is not None:
            known.cohort.finish(request.id, output_tokens=output_tokens)
            self._note_change(request)

    def observe_cancelled(self, request: Request, *, output_tokens: int) -> None:
        """Keep a request as right-censored at the tokens it made before its client left."""
        self._fallback.observe_cancelled(request, output_tokens=output_tokens)
        known = self._find(request)
        if known is not None:
            known.cohort.cut_short(request.id, output_tokens=output_tokens)
            self._note_change(request)

    @property
    def refit_due(self) -> bool:
        """As the fallback: one schedule for both."""
        return self._fallback.refit_due

    def refit(self, running: Sequence[Running]) -> None:
        """Estimate anew the fallback and the prefixes of which requests ended since."""
        self._fallback.refit(running)
        ages = {request.id: age for request, age in running}
        for prefix in self._changed:
            self._laws[prefix].refit(ages, least_finished=self._least_finished)
        self._changed.clear()

    def _find(self, request: Request) -> _PrefixLaw | None:
        prefix = self._prefix_of(request)
        return None if prefix is None else self._laws.get(prefix)

    def _note_change(self, request: Request) -> None:
        prefix = self._prefix_of(request)
        if prefix is not None:
            self._changed.add(prefix)


def prefix_lookup(prefix_id: IntArray | None) -> PrefixOf:
    """Prefixes of requests numbered 0 .. n - 1.

    Parameters
    ----------
    prefix_id
        Shape (n,), ``NO_PREFIX`` where a request has none; None where none has.
    """
    if prefix_id is None:
        return lambda _request: None
    prefixes = prefix_id.tolist()

    def prefix_of(request: Request) -> int | None:
        prefix: int = prefixes[request.id]
        return None if prefix == NO_PREFIX else prefix

    return prefix_of


def _check_at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise InputError(name, "at least 1", number)
