"""Names and words: functions are verbs, signatures can be read, and prose is plain English."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.source import ROOT, Source, product_files, read

if TYPE_CHECKING:
    from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef

# A word that names a state: alone it reads as a value or a boolean, not as something that is done.
IRREGULAR = re.compile(
    "begun|brought|built|caught|chosen|dead|done|found|given|gone|held|kept|left|lost|made|meant|said|seen|sent|shown"
    "|stood|taken|told|written"
)
STATE = re.compile(r"[a-z]{2,}ed")
NOT_STATES = frozenset({"exceed", "feed", "need", "proceed", "seed", "shed"})
KEY_NAMES = frozenset({"taken"})
"""Of `QueueKeys`: each method is named as the key that it returns."""
# Units, and what everyone in the field calls so.
SHORT = re.compile("__?|at|by|db|fd|id|ms|n|of|ti|tz|x|y")
DIALECT = re.compile(
    r"trying on|\bmend(s|ed)?\b|\banew\b|\b(is|are|was|were) told\b|of yours\b|\bwhoever\b|\bnobody (has|knows)\b",
    re.IGNORECASE,
)
PROSE = [
    *(path for folder in ("docs", "demo", "dags_examples", "deploy") for path in (ROOT / folder).rglob("*")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]

SOURCES = [read(path) for path in product_files()]
TEXTS = sorted({*product_files(), *(path for path in PROSE if path.suffix in (".md", ".py", ".yml", ".yaml"))})


def by_path(one: Source | Path) -> str:
    return one.path if isinstance(one, Source) else str(one.relative_to(ROOT))


def functions(source: Source) -> Iterator[Function]:
    return (node for node in ast.walk(source.tree) if isinstance(node, Function))


def is_value(function: Function) -> bool:
    """Properties and named constructors are read as values."""
    return bool({"property", "staticmethod", "classmethod"} & {ast.unparse(one) for one in function.decorator_list})


def states(source: Source) -> Iterator[str]:
    for function in functions(source):
        word = function.name.strip("_")
        is_state = IRREGULAR.fullmatch(word) or (STATE.fullmatch(word) and word not in NOT_STATES)
        if is_state and word not in KEY_NAMES and not is_value(function):
            yield f"line {function.lineno}: {function.name} names a state; name what the function does"


def short_names(source: Source) -> Iterator[str]:
    for function in functions(source):
        arguments = function.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if len(one.arg) <= 2 and not SHORT.fullmatch(one.arg):
                yield f"line {one.lineno}: {function.name} takes {one.arg}; spell it out"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and len(node.name) <= 2:
            yield f"line {node.lineno}: class {node.name}; spell it out"
        if isinstance(node, ast.Assign) and _is_alias(node):
            yield f"line {node.lineno}: {ast.unparse(node.targets[0])} is an alias of a type; spell it out"


def _is_alias(node: ast.Assign) -> bool:
    """A short name for a type; a type variable may be one letter."""
    target, value = node.targets[0], node.value
    is_short = isinstance(target, ast.Name) and len(target.id) <= 2 and target.id[:1].isupper()
    return is_short and isinstance(value, ast.Subscript | ast.Name | ast.BinOp)


@pytest.mark.parametrize("source", SOURCES, ids=by_path)
def test_functions_are_named_by_what_they_do(source: Source) -> None:
    assert not list(states(source))


@pytest.mark.parametrize("source", SOURCES, ids=by_path)
def test_signatures_have_no_short_aliases(source: Source) -> None:
    assert not list(short_names(source))


def test_texts_are_plain_english() -> None:
    lines = [(path, line) for path in TEXTS for line in enumerate(path.read_text().splitlines(), 1)]
    assert len(lines) > 10_000
    found = [f"{path.relative_to(ROOT)}:{line[0]} {line[1].strip()}" for path, line in lines if DIALECT.search(line[1])]
    assert found == []


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("def describe(): ...", True),
        ("def need(): ...", True),
        ("def is_paused(): ...", True),
        ("def shared_waits(): ...", True),
        ("@property\ndef failed(): ...", True),
        ("def described(): ...", False),
        ("async def _told(): ...", False),
        ("def __dead(): ...", False),
    ],
)
def test_a_state_as_the_name_of_a_function_is_seen(code: str, fine: bool) -> None:
    assert (not list(states(Source("x", False, code)))) == fine


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("def pause(dashboard: DashboardDep, ms: int): ...", True),
        ("T = TypeVar('T')", True),
        ("def pause(the: The, at: At): ...\nAt = Annotated[Place, Depends(place)]", False),
        ("def pause(q): ...", False),
        ("class At: ...", False),
    ],
)
def test_a_short_alias_is_seen(code: str, fine: bool) -> None:
    assert (not list(short_names(Source("x", False, code)))) == fine
