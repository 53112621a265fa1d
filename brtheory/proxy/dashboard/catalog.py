"""The routers one can choose, and their parameters, as a form needs them."""

from typing import Any

from pydantic import TypeAdapter

from brtheory.proxy.ticker import servable_routers
from brtheory.routers.registry import RouterSpec, router_specs


def router_catalog() -> list[dict[str, Any]]:
    """All routers that can serve; ``params`` is a JSON Schema of each one's parameters."""
    servable = servable_routers()
    return [_entry(spec) for name, spec in router_specs().items() if name in servable]


def _entry(spec: RouterSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "family": spec.family,
        "summary": spec.summary,
        "needs_predictor": spec.needs_predictor,
        "params": TypeAdapter(spec.params).json_schema(),
    }
