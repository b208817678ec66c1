"""The site is built without a warning, every link in it leads somewhere, and it takes nothing from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.support.page_blocks import DOCS, ROOT

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
"""What a browser fetches by itself, in contrast to a link that somebody follows."""


class Page(HTMLParser):
    """What a built page refers to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self.loaded += [given[name] for kind, name in LOADED if tag == kind and name in given]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


@pytest.mark.timeout(240)
def test_every_page_is_there(site: Path) -> None:
    written = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    assert [str(path) for path in written if not (site / path).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    told = str(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert [str(path) for path in DOCS.rglob("*.md") if repr(str(path.relative_to(DOCS))) not in told] == []


@pytest.mark.timeout(240)
def test_nothing_is_loaded_from_elsewhere(built: dict[Path, Page]) -> None:
    outside = [(path.name, url) for path, page in built.items() for url in page.loaded if urlsplit(url).netloc]
    assert outside == []


@pytest.mark.timeout(240)
def test_links_lead_somewhere(built: dict[Path, Page], site: Path) -> None:
    broken = [
        (str(path.relative_to(site)), link)
        for path, page in built.items()
        for link in page.links
        if path.name != "404.html" and not _leads_somewhere(path, link, built)
    ]
    assert broken == []


def _leads_somewhere(path: Path, link: str, built: dict[Path, Page]) -> bool:
    url = urlsplit(link)
    if url.scheme or url.netloc:
        return url.scheme in ("http", "https", "mailto")
    target = Path(os.path.normpath(path.parent / unquote(url.path))) if url.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    return not url.fragment or target not in built or unquote(url.fragment) in built[target].anchors


@pytest.mark.timeout(240)
def test_search_works_in_pages_opened_as_files(site: Path, built: dict[Path, Page]) -> None:
    assert (site / "search/search_index.js").read_text(encoding="utf-8").startswith("var __index = {")
    assert any("iframe-worker.js" in url for url in built[site / "index.html"].loaded)
