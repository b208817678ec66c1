"""The product's source files, and what each of them imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGES = ("chasqui_engine", "chasqui_provider", "pyspark_chasqui")


@dataclass(frozen=True)
class Source:
    name: str  # dotted; a package is named by its folder
    is_package: bool
    text: str
    path: str = ""

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


@dataclass(frozen=True)
class Import:
    """`from module import name`, or `import module` (name is then empty)."""

    module: str
    name: str
    line: int


def product_files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def read(path: Path) -> Source:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Source(name, is_package, path.read_text(), str(path.relative_to(ROOT)))


def imports(source: Source) -> Iterator[Import]:
    """Every import, also those inside functions and those that only a type checker sees."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(source, node)
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = source.name.split(".")
    package = package[: len(package) - node.level + source.is_package]
    return ".".join([*package, *(node.module.split(".") if node.module else [])])
