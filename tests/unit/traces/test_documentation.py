"""The documented list of synonyms is the one in the code."""

import re
from pathlib import Path

import pytest

from brtheory.traces.formats import ROLES, SYNONYMS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "traces.md"


@pytest.mark.parametrize("role", ROLES)
def test_documented_synonyms_are_complete_and_in_order(role: str) -> None:
    what = role.split("_", maxsplit=1)[0]
    (listed,) = re.findall(rf"^\* {what}: (.*?)(?=^\*|^$)", PAGE.read_text(), re.M | re.S)
    assert tuple(re.findall(r"`(\w+)`", listed)) == SYNONYMS[role]
