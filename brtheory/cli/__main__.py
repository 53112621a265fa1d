"""``python -m brtheory.cli``."""

from brtheory.cli.main import main

main()
