"""The page: self-contained, well-formed, labelled, and honest about what its numbers are."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from brtheory.study.campaign import LoadCurves
from brtheory.study.choices import resolve_choices
from brtheory.study.figures.bars import imbalance_bars
from brtheory.study.figures.canvas import VARIABLES
from brtheory.study.figures.loads import load_curves
from brtheory.study.figures.scaling import scaling_lines
from brtheory.study.figures.tails import tpot_dots, wait_dots
from brtheory.study.findings import find
from brtheory.study.report import report_html
from tests.unit.study.page import Page
from tests.unit.study.samples import ROUTERS, document, metrics

NAMES = ("loads", "imbalance", "idle", "throughput", "tpot", "waits")


def curves():
    choices = resolve_choices(["jsq", "br0"], mean_output_tokens=6, slots=2)
    loads = np.array([[5, 3], [6, 4], [9, 9]])
    return [LoadCurves(choice, np.arange(3), loads) for choice in choices]


def made(**options):
    windows = {label: [metrics(100 + n), metrics(104 + n)] for n, label in enumerate(ROUTERS)}
    windows["br0"] = [metrics(30, wait_p50=0.0), metrics(31, wait_p50=0.0)]
    study = document(windows, **options)
    return study.model_copy(update={"findings": find(study)})


@pytest.fixture(scope="module")
def page():
    return Page(report_html(made(synthetic=True), curves()))


def test_page_is_well_formed_and_loads_nothing(page):
    assert page.open == page.mismatched == page.loads == []
    assert len(page.ids) == len(set(page.ids))


def test_styles_load_nothing_either():
    text = report_html(made(), curves())
    assert not re.search(r"@import|url\((?!#)", text)
    assert "<script" not in text


def test_every_figure_is_labelled_and_has_words_as_text(page):
    labels = [svg["aria-label"] for svg in page.svgs]
    assert len(labels) == len(NAMES)
    assert all(svg["role"] == "img" for svg in page.svgs)
    assert all(len(label) > 40 for label in labels)
    assert {"JSQ", "BR-0", "step", "seconds", "imbalance, thousand KV tokens"} <= set(page.svg_text)


def test_page_says_what_is_synthetic_and_what_is_modelled(page):
    words = " ".join(page.text)
    assert words.count("synthetic requests") >= 2 + len(NAMES)
    assert "modelled step time" in words
    assert "synthetic requests" not in " ".join(Page(report_html(made(), curves())).text)


def test_names_from_files_are_escaped(page):
    words = " ".join(page.text)
    assert "brtheory study --out 'a <b>'" in words
    assert "3 rows dropped: <zero> tokens" in words


def test_all_findings_are_on_the_page(page):
    words = " ".join(page.text).replace("\u00a0", " ")
    study = made(synthetic=True)
    assert len(study.findings) >= 4
    assert all(finding.text in words for finding in study.findings)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: load_curves(curves()),
        lambda: imbalance_bars(made()),
        lambda: tpot_dots(made()),
        lambda: wait_dots(made()),
    ],
)
def test_drawings_are_xml_in_the_pages_colours(draw):
    drawing = draw()
    ElementTree.fromstring(drawing.svg)  # our own drawing
    assert "var(--" in drawing.svg
    assert not any(colour in drawing.svg for colour in VARIABLES)
    # Black and white would vanish in one of the two modes.
    assert not re.search(r"#000000|#ffffff|fill: black", drawing.svg)


def test_alt_text_states_the_numbers_drawn():
    alt = imbalance_bars(made()).alt
    # Means of 100 and 104, of 30 and 31, in thousands.
    assert "JSQ 0.1" in alt
    assert "BR-0 0.0" in alt


def test_a_study_without_growth_has_no_such_figure():
    assert scaling_lines(made()) is None
