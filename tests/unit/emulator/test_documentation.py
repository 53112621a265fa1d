"""The emulator's page names what there is."""

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from brtheory.cli.emulate import emulate
from brtheory.emulator.config import EmulatorConfig
from brtheory.emulator.connectors import CONNECTORS
from brtheory.emulator.emulator import Emulator
from brtheory.emulator.faults import FaultKind, FaultRule
from brtheory.emulator.truth import truth_document

PAGE = (Path(__file__).parents[3] / "docs" / "emulator.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([^`\n]+)`", PAGE))


@pytest.mark.parametrize("name", [*get_args(FaultKind), *FaultRule.model_fields, *CONNECTORS])
def test_every_fault_its_fields_and_every_connector_are_described(name):
    assert name in NAMED | {"kind"}


def test_every_field_of_the_truth_is_described():
    truth = truth_document(Emulator(EmulatorConfig()).deployment, with_requests=True)
    assert set(truth) - {"schema"} <= NAMED
    assert f"`{truth['schema']}`" in PAGE


def test_every_option_that_is_mentioned_exists():
    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(emulate).parameters}
    assert set(re.findall(r"--[a-z][a-z0-9-]+", PAGE)) <= options
