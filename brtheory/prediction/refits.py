"""When to learn anew: often while little is known, then once in ``every`` completions."""

from brtheory.errors import InputError

GROWTH = 8
"""While young, a refit is due when an eighth more completions have been seen."""


class RefitPolicy:
    """Counts completions, so that the cost of refits per completion is bounded.

    Parameters
    ----------
    every
        Completions between two refits in the long run, >= 1.

    Raises
    ------
    InputError
        If ``every`` is below 1.
    """

    def __init__(self, every: int) -> None:
        if every < 1:
            raise InputError("refit_every", "at least 1 completion", every)
        self._every = every
        self._seen = 0
        self._pending = 0

    @property
    def due(self) -> bool:
        """Whether enough completions came since the last refit."""
        return self._pending >= min(self._every, 1 + self._seen // GROWTH)

    def completed(self) -> None:
        """Count one completion."""
        self._pending += 1

    def refitted(self) -> None:
        """Start counting again."""
        self._seen += self._pending
        self._pending = 0
