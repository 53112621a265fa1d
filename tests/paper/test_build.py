"""The paper is typeset from its sources and the result files."""

import re
from pathlib import Path

from paper.build import build


def test_the_paper_is_typeset_with_all_its_pages(tmp_path: Path) -> None:
    output = build(tmp_path / "paper.pdf")
    content = output.read_bytes()
    assert content.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", content))
    assert 8 <= pages <= 12  # conference length with appendix
