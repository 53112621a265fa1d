"""The ``brtheory`` program, also as ``python -m brtheory.cli``: quiet from its first import on."""

import sys

INTERRUPTED = 130


def start() -> None:
    """Run the command line; Ctrl-C while it still loads is no traceback either."""
    try:
        from brtheory.cli.main import main  # noqa: PLC0415  # what loads is caught
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    main()


if __name__ == "__main__":
    start()
