"""The prediction contract: the chance that a request ends within H steps, and when it then does.

Learning follows the same contract wherever it runs, in the simulator, in an evaluation or in a
proxy. Within one step the caller makes these calls, in this order, and no others:

1. ``observe_finished`` for every request whose last token came at the end of the step before
   (``observe_cancelled`` for every one whose client left);
2. if ``refit_due``: ``refit`` with the requests decoding now and their ages;
3. ``predict`` for every running request whose prediction has come due;
4. where the router asks how long a request would stay, ``predict`` at age 0 for requests that
   wait, any number of times;
5. ``observe_admitted``, then ``predict`` at age 0, for every request admitted in this step.

A predictor so learns an output length only from ``observe_finished``; of a running request it
knows that its output is longer than its age, a right-censored observation. Whether one keeps to
this is checked by ``brtheory.prediction.causality``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from brtheory.core.requests import Request

PrefixOf = Callable[[Request], int | None]
"""Prompt-hash prefix of a request, None where it has none."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Answer for one request at one age.

    Parameters
    ----------
    p_finish
        P(r <= H | features, age), in [0, 1]; 0 where the predictor knows nothing yet, so that the
        request counts as an anchor.
    mean_remaining
        E[r | r <= H] in steps, in [1, H]; None where ``p_finish`` is 0.
    """

    p_finish: float
    mean_remaining: float | None


ANCHOR = Prediction(p_finish=0.0, mean_remaining=None)
"""The answer of a predictor that has seen nothing like the request end: present at every h."""


class Running(NamedTuple):
    """A request that decodes now, and its age: the output tokens it has made so far."""

    request: Request
    age: int


class Predictor(Protocol):
    """Anything that answers the contract."""

    def predict(self, request: Request, *, age: int, horizon: int) -> Prediction:
        """Predict the remaining steps r (this one included) of a request of age ``age``."""


@runtime_checkable
class OnlinePredictor(Predictor, Protocol):
    """A predictor that learns while it runs; see the module for who calls what when."""

    def observe_admitted(self, request: Request) -> None:
        """Note that a request has been bound to a replica and starts to decode."""

    def observe_finished(self, request: Request, *, output_tokens: int) -> None:
        """Note that a request made its last token: its output length is known from now on."""

    def observe_cancelled(self, request: Request, *, output_tokens: int) -> None:
        """Note that a request was cut short: its output would have been at least this long."""

    @property
    def refit_due(self) -> bool:
        """Whether enough has been observed since the last refit."""

    def refit(self, running: Sequence[Running]) -> None:
        """Learn from what has been observed, given every request decoding now and its age."""
