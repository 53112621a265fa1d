"""Documents and examples say what the code does."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from brtheory.proxy.config import check_settings, load_settings
from brtheory.proxy.lifecycle import as_markdown, as_mermaid
from brtheory.proxy.settings import Settings
from brtheory.proxy.telemetry import Telemetry
from tests.unit.proxy.desk import make_desk

ROOT = Path(__file__).parents[3]
OPERATE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples" / "proxy").glob("*.toml"))


def test_the_life_of_a_request_is_drawn_from_the_table() -> None:
    drawn = OPERATE.split("<!-- lifecycle -->\n")[1].split("<!-- /lifecycle -->")[0]
    assert drawn == f"```mermaid\n{as_mermaid()}\n```\n\n{as_markdown()}\n\n"


def test_every_metric_is_explained_and_every_explained_metric_exists() -> None:
    desk, _ = make_desk()
    exposed = Telemetry(desk).exposition().decode()
    names = set(re.findall(r"^# TYPE (brtheory_\w+) ", exposed, flags=re.MULTILINE))
    names = {name for name in names if not name.endswith("_created")}
    table = OPERATE.split("## Metrics")[1].split("## Limits")[0]
    told: set[str] = set()
    for cell in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE):
        words = re.findall(r"`(\w+)`", cell)
        stem = words[0]
        for word in words:
            told.add(word if word.startswith("brtheory") else _sibling(stem, word, names))
    conditional = {"brtheory_barrier_idle_ratio", "brtheory_step_seconds"}  # once streams have run
    assert told - conditional == names - conditional


def _sibling(stem: str, ending: str, names: set[str]) -> str:
    """The metric whose name is a beginning of the first one's with another ending."""
    parts = stem.removesuffix("_total").split("_")
    candidates = ["_".join(parts[:n]) + ending for n in range(len(parts), 0, -1)]
    return next((name for name in candidates if name in names), stem + ending)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid(path: Path) -> None:
    document = tomllib.loads(path.read_text())
    # Key files of the example lie on the operator's machine.
    document.get("server", {}).pop("api_keys_file", None)
    check_settings(Settings.model_validate_json(json.dumps(document)))


def test_there_is_an_example_for_each_topology() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "vllm-nixl",
        "vllm-ascend",
        "data-parallel-external",
        "data-parallel-hybrid",
    }


def test_settings_named_in_the_manual_exist() -> None:
    sections = "|".join(Settings.model_fields)
    named = set(re.findall(rf"`({sections})\.(\w+)", OPERATE))
    assert len(named) > 15
    for section, name in named:
        model = Settings.model_fields[section].annotation
        assert name in getattr(model, "model_fields", {}), f"{section}.{name}"


def test_the_environment_is_spelt_as_the_manual_says() -> None:
    decode = 'decode=[{name = "d", url = "http://x"}]'
    settings = load_settings(
        None,
        environment={"BRTHEORY_PROXY_POOL__REQUESTS": "64"},
        flags=[decode, "connector.name=none"],
    )
    assert settings.pool.requests == 64
