"""What stands above a result file: command, revision, versions, and how it was run."""

from typing import Any

from brtheory.study.provenance import package_root, revision, versions


def made_by(benchmark: str, **settings: Any) -> dict[str, Any]:
    """The provenance of a result of ``python -m benchmarks.NAME``."""
    return {
        "command": f"python -m benchmarks.{benchmark}",
        "revision": revision(package_root()).model_dump(),
        "versions": versions(),
        **settings,
    }
