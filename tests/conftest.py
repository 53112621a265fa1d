"""Shared fixtures: where the real traces are, and proof that the checkout is what is tested."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.hypothesis_profiles import load_profile

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Fail early when an installed copy shadows the checkout: the package names are generic."""
    load_profile()
    for package in ("brtheory", "solvers", "proofs"):
        spec = find_spec(package)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or not origin.is_relative_to(ROOT):
            pytest.exit(f"{package} resolves to {origin}, not into {ROOT}", returncode=2)


def _traces_directory() -> Path | None:
    candidate = Path(os.environ.get("BRTHEORY_TRACES", ROOT.parent / "shared" / "traces"))
    return candidate if candidate.is_dir() else None


@pytest.fixture(scope="session")
def traces_dir() -> Path:
    """Directory of the real traces; tests that ask for it are left out where it is missing.

    With BRTHEORY_REQUIRE_TRACES=1 they fail instead.
    """
    directory = _traces_directory()
    if directory is None:
        if os.environ.get("BRTHEORY_REQUIRE_TRACES") == "1":
            pytest.fail("real traces are required (BRTHEORY_REQUIRE_TRACES=1) and missing")
        pytest.skip("real traces not found")
    return directory


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the real traces."""
    for item in items:
        if "traces_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.traces)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one loud line when the tests on real traces were left out."""
    if _traces_directory() is None:
        terminalreporter.write_line(
            "REAL TRACES MISSING: the tests that need them were left out "
            "(set BRTHEORY_TRACES to their directory)",
            red=True,
            bold=True,
        )
