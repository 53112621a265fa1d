"""When to learn anew: often while little is known, then once in ``every`` completions.

A refit costs time in proportion to the sample it is made from (times a logarithm), so that refits
of large samples are rarer: their cost per completion stays bounded.
"""

from brtheory.errors import InputError

GROWTH = 8
"""While young, a refit is due when an eighth more completions have been seen."""
SAMPLE_SHARE = 32
"""At least one completion in so many of the sample between two refits in the long run."""


class RefitPolicy:
    """Counts completions.

    Parameters
    ----------
    every
        Completions between two refits of a small sample in the long run, >= 1.

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
        self._sample = 0

    @property
    def due(self) -> bool:
        """Whether enough completions came since the last refit."""
        return self._pending >= min(
            max(self._every, self._sample // SAMPLE_SHARE), 1 + self._seen // GROWTH
        )

    def completed(self) -> None:
        """Count one completion."""
        self._pending += 1

    def refitted(self, sample: int) -> None:
        """Start counting again after a refit from a sample of this size."""
        self._sample = sample
        self._seen += self._pending
        self._pending = 0
