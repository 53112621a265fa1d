"""Whether a node is up, from probes and from connections that failed, apart from its load.

A node goes down after several failures in a row and comes up after several successes in a row, so
that flapping neither cuts streams nor loses books: going down only stops new requests. Answers with
a client error are a sign of life and never count against a node.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class HealthRecord:
    """One node.

    Parameters
    ----------
    fall_after, rise_after
        Failures, successes in a row that turn it down, up; >= 1.
    up
        Whether it gets new requests.
    changes
        How often that has turned.
    reason
        Why it is down, None while it is up.
    """

    fall_after: int = 3
    rise_after: int = 2
    up: bool = True
    changes: int = 0
    reason: str | None = None
    _streak: int = 0

    def succeeded(self) -> bool:
        """Note a success; returns whether the node has just come up."""
        self._streak = max(0, self._streak) + 1
        if self.up or self._streak < self.rise_after:
            return False
        self._turn(reason=None)
        return True

    def failed(self, reason: str) -> bool:
        """Note a failure; returns whether the node has just gone down."""
        self._streak = min(0, self._streak) - 1
        if not self.up or -self._streak < self.fall_after:
            return False
        self._turn(reason=reason)
        return True

    def _turn(self, *, reason: str | None) -> None:
        self.up = not self.up
        self.reason = reason
        self.changes += 1
        self._streak = 0


def counts_against(status: int) -> bool:
    """Whether an HTTP status is a failure of the node rather than of the request.

    vLLM answers 500 where its engine has died or has lost KV, and 501 what it never does.
    """
    return status in (500, 502, 503, 504)
