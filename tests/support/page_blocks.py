"""The code blocks of the documentation, and what a comment before a block says about how it is tested."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"^(?:[ ]*<!-- (?P<mark>[a-z ]+): (?P<says>.*?) -->\n)?"
    r"(?P<indent>[ ]*)(?P<fence>`{3,})(?P<language>[^\s`]*)(?P<rest>[^\n]*)\n"
    r"(?P<code>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block.

    The comment on the line before it may say, in place of running it as it stands:

        file: PATH            it is this file of the repository, which has tests of its own
        save: NAME            it is a file of the reader's, that later blocks of the page use
        printed by: WHAT      it is what the block before it prints
        run by: TEST          that test runs it
        compiled only: WHY    it cannot be run here
    """

    page: Path
    line: int
    language: str
    code: str
    mark: str = ""
    says: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page that people read as documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            # Of the first line of code.
            line=text.count("\n", 0, found.start("code")) + 1,
            language=found["language"],
            code=textwrap.dedent(found["code"]),
            mark=found["mark"] or "",
            says=found["says"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def inline_code(page: Path) -> Iterator[str]:
    """What stands between single backticks."""
    outside = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return (found[1] for found in _INLINE.finditer(outside))
