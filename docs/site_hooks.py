"""Hooks of the site: pages that live elsewhere in the repository, and links that lead there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"security.md": "SECURITY.md", "changes.md": "CHANGELOG.md", "benchmarks.md": "benchmarks/README.md"}
"""Pages of the site that are files outside of `docs`."""
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that live elsewhere."""
    for page, source in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Leads links between files of the repository to their pages; what has no page keeps its text only."""
    here = page.file.src_uri
    source = ROOT / ELSEWHERE[here] if here in ELSEWHERE else ROOT / "docs" / here
    return _LINK.sub(lambda link: _led(link, source.parent, here), markdown)


def _led(link: re.Match[str], folder: Path, here: str) -> str:
    target = os.path.relpath(os.path.normpath(folder / link["target"]), ROOT)
    pages = {source: page for page, source in ELSEWHERE.items()}
    if target in pages:
        found = pages[target]
    elif target.startswith("docs/"):
        found = target.removeprefix("docs/")
    else:
        return link["text"]
    there = os.path.relpath(found, os.path.dirname(here) or ".")
    return f"{link['image']}[{link['text']}]({there}{link['anchor'] or ''})"
