"""Files and functions stay small enough to read in one go, and no error is swallowed without a word."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.support.source import Source, product_files, read

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_LINES = 350
FUNCTION_LINES = 60


def long_functions(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"line {node.lineno}: {node.name} has {lines} lines, over {FUNCTION_LINES}"


def swallowed_errors(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and all(map(_does_nothing, node.body)):
            yield f"line {node.lineno}: this except does nothing; use contextlib.suppress and say why"


def _does_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


SOURCES = [read(path) for path in product_files()]


def by_path(source: Source) -> str:
    return source.path


@pytest.mark.parametrize("source", SOURCES, ids=by_path)
def test_files_are_short(source: Source) -> None:
    assert len(source.text.splitlines()) <= FILE_LINES


@pytest.mark.parametrize("source", SOURCES, ids=by_path)
def test_functions_are_short(source: Source) -> None:
    assert not list(long_functions(source))


@pytest.mark.parametrize("source", SOURCES, ids=by_path)
def test_no_error_is_swallowed(source: Source) -> None:
    assert not list(swallowed_errors(source))


@pytest.mark.parametrize("body", ["pass", "...", "'why not'"])
def test_a_swallowed_error_is_seen(body: str) -> None:
    assert list(swallowed_errors(Source("x", False, f"try:\n    f()\nexcept OSError:\n    {body}\n")))


def test_a_long_function_is_seen() -> None:
    assert list(long_functions(Source("x", False, "async def f():\n" + "    g()\n" * FUNCTION_LINES)))
