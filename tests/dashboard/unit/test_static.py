"""Scripts and styles: nothing that reads HTML, nothing from elsewhere, nothing inline."""

from __future__ import annotations

import posixpath
import re
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(str(files("chasqui_engine.dashboard") / "static"))
STATIC = {file.relative_to(ROOT).as_posix(): file.read_text() for file in ROOT.rglob("*.*")}
SCRIPTS = {name: text for name, text in STATIC.items() if name.endswith(".js")}
READS_HTML = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML"
    r"|\beval\b|new Function|javascript:|srcdoc|setTimeout\(\s*[\"'`]"
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_reads_html_or_makes_code_of_text(name: str) -> None:
    assert not READS_HTML.findall(SCRIPTS[name])


@pytest.mark.parametrize("name", STATIC)
def test_nothing_comes_from_elsewhere(name: str) -> None:
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", STATIC[name]))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_the_page_has_nothing_inline() -> None:
    page = STATIC["page.html"]
    assert not re.findall(r"<style|\bstyle=|\son\w+=", page)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))
    for path in re.findall(r'(?:src|href)="static/([^"]+)"', page):
        assert path in STATIC


def test_every_script_that_is_imported_is_there_and_used() -> None:
    imported = {
        posixpath.normpath(posixpath.join(posixpath.dirname(script), name))
        for script, text in SCRIPTS.items()
        for name in re.findall(r'from "(\.[^"]+)"', text)
    }
    assert imported | {"main.js", "theme.js"} == set(SCRIPTS)
