"""The one error tree of the package.

Every error a user can cause says what was expected, what came and where. Libraries raise these;
only the command line prints them and turns them into exit codes.
"""

LONGEST_GOT = 240
"""Characters of what came that a message shows: input can be megabytes on one line."""


class BrtheoryError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(BrtheoryError):
    """Input that does not fit its contract.

    Parameters
    ----------
    where
        File and line (``azure.csv:1207``), field (``requests[3].prompt_tokens``) or parameter name.
    expected
        What the contract asks for, e.g. ``output tokens >= 1``.
    got
        What came instead, as text.
    """

    def __init__(self, where: str, expected: str, got: object) -> None:
        super().__init__(f"{where}: expected {expected}, got {_shortened(str(got)) or 'nothing'}")
        self.where = where
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, object]]:
        return type(self), (self.where, self.expected, self.got)


class InfeasibleError(BrtheoryError):
    """A well-formed problem that has no solution; the message names the request and the limit."""


class MissingExtraError(BrtheoryError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install 'brtheory[{extra}]'")
        self.what = what
        self.extra = extra

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        return type(self), (self.what, self.extra)


def _shortened(text: str) -> str:
    return (
        text if len(text) <= LONGEST_GOT else f"{text[:LONGEST_GOT]}... ({len(text):,} characters)"
    )
