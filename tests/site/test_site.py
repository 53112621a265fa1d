"""The documentation site, built as `make docs` builds it: no dead link, nothing fetched, a search
that works from disk, pages that fit a telephone."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
import yaml

from tests.browser import browser, find_browser
from tests.conftest import ROOT
from tests.unit.proxy.engines import asynchronous_for

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("brtheory", "solvers", "proofs")
    for path in (ROOT / package).rglob("*.py")
    if not path.name.startswith("__")
]
CODE = ("code", "pre", "script", "style", "svg")
"""What holds no prose."""
PHONE = {"width": 390, "height": 844, "mobile": True}
asynchronous = asynchronous_for(120)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    quiet = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    built = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


class Page(HTMLParser):
    """What a page links to, what it fetches, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.names: set[str] = set()
        self.prose: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_endtag(self, tag: str) -> None:
        if tag in CODE:
            self._inside.remove(tag)

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.prose += data.splitlines()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside += [tag] if tag in CODE else []
        found = {name: value for name, value in attrs if value}
        self.names |= {found[key] for key in ("id", "name") if key in found}
        if "href" in found:
            self.links.add(found["href"])
        if "src" in found or tag == "link":
            self.fetched.add(found.get("src", found.get("href", "")))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page but the server's own for what is not there."""
    return {
        page: Page(page.read_text(encoding="utf-8"))
        for page in site.rglob("*.html")
        if page.name != "404.html"
    }


def test_every_link_within_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    dead = [
        f"{path.name}: {address}"
        for path, page in pages.items()
        for address in page.links | page.fetched
        if not urlparse(address).scheme and not _leads(path, address, pages)
    ]
    assert not dead


def test_every_table_and_list_is_shown_as_one(pages: dict[Path, Page]) -> None:
    raw = [
        f"{path.name}: {line}"
        for path, page in pages.items()
        for line in page.prose
        if line.startswith(("|--", "| --", "* ", "- "))
    ]
    assert not raw


def test_a_dead_link_and_a_missing_place_on_a_page_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text('<p id="here"></p>')
    pages = {path: Page(path.read_text())}
    assert _leads(path, "a.html#here", pages)
    assert _leads(path, "#here", pages)
    assert not _leads(path, "a.html#there", pages)
    assert not _leads(path, "b.html", pages)


def test_nothing_is_fetched_from_elsewhere(pages: dict[Path, Page]) -> None:
    fetched = {address for page in pages.values() for address in page.fetched}
    assert fetched
    assert not {address for address in fetched if urlparse(address).scheme in ("http", "https")}


def test_every_module_every_schema_and_every_notebook_has_its_page(site: Path) -> None:
    missing = [name for name in MODULES if not (site / "reference" / f"{name}.html").exists()]
    assert not missing
    listed = (site / "reference" / "schemas.html").read_text(encoding="utf-8")
    for schema in (ROOT / "docs" / "schemas").glob("*.schema.json"):
        assert f'href="../schemas/{schema.name}"' in listed
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert (site / "notebooks" / f"{notebook.stem}.html").exists()


def test_every_document_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text)["nav"])))
    written = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert written - named == set()


@asynchronous
async def test_search_finds_a_word_where_the_site_is_opened_from_disk(site: Path) -> None:
    find_browser()
    async with browser() as tab:
        await tab.open((site / "index.html").as_uri())
        await tab.until("document.querySelector('.md-search__input') !== null")
        await tab.evaluate("document.querySelector('.md-search__input').focus()")
        await tab.type("newsvendor")
        found = "document.querySelectorAll('.md-search-result__link').length > 0"
        assert await tab.until(found, timeout_s=90)
        assert not [url for url in tab.requested if url.startswith("http")]


@asynchronous
@pytest.mark.parametrize("page", ["index", "results", "routers", "notebooks/predictors"])
async def test_a_page_fits_a_telephone(site: Path, page: str) -> None:
    find_browser()
    async with browser() as tab:
        await tab.open((site / f"{page}.html").as_uri(), **PHONE)
        await tab.until("document.readyState === 'complete'")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await tab.evaluate(wide) <= 0


def _leads(path: Path, address: str, pages: dict[Path, Page]) -> bool:
    parts = urlparse(address)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return False
    return (
        not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].names
    )
