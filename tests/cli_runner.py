"""Run the command line in this process, as a shell would see it."""

import io
import sys
from dataclasses import dataclass
from unittest.mock import patch

from brtheory.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def run_cli(*arguments, stdin=""):
    """Exit code, standard output and standard error of ``brtheory ARGUMENTS``."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["brtheory", *map(str, arguments)]
    with (
        patch.object(sys, "argv", argv),
        patch.object(sys, "stdin", io.StringIO(stdin)),
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", err),
    ):
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(bool(exit_.code))
    return Outcome(code, out.getvalue(), err.getvalue())
