"""The routers one can choose, and their parameters, as a form needs them."""

from typing import Any

from pydantic import TypeAdapter

from brtheory.routers.registry import RouterSpec, router_specs


def router_catalog() -> list[dict[str, Any]]:
    """All routers of the registry; ``params`` is a JSON Schema of each one's parameters."""
    return [_entry(spec) for spec in router_specs().values()]


def _entry(spec: RouterSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "family": spec.family,
        "summary": spec.summary,
        "needs_predictor": spec.needs_predictor,
        "params": TypeAdapter(spec.params).json_schema(),
    }
