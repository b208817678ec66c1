"""Provider, command line and dashboard use what the engine's packages export; none of them reaches inside.

A package exports what its `__init__` lists: `chasqui_engine` its stub, each package in it its `__all__`.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.test_layers import ENGINE, PROVIDER, is_within
from tests.support.source import ROOT, Source, imports, product_files, read

if TYPE_CHECKING:
    from collections.abc import Iterator

STUB = (ROOT / ENGINE / "__init__.pyi").read_text()
SOURCES = {source.name: source for source in map(read, product_files())}
EDGES = (f"{ENGINE}.cli", f"{ENGINE}.dashboard")
PRIVATE = f"{ENGINE}._redis"
# Modules that are public as they are.
MODULES = tuple(
    f"{ENGINE}.{name}" for name in ("connections", "dashboard.silent_connections", "payload_json", "pipeline.__main__")
)
# Clocks, durations and the like: the engine's own parts may use what knows nothing outside itself.
HELPERS = (f"{ENGINE}.values", f"{ENGINE}.runtime")


def names_of_stub(stub: str) -> set[str]:
    return set(re.findall(r"^from \S+ import \w+ as (\w+)$", stub, re.MULTILINE))


def names_of_all(package: Source) -> set[str]:
    for node in package.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return {leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
    return set()


def exports() -> dict[str, set[str]]:
    packages = [one for one in SOURCES.values() if one.is_package and is_within(one.name, ENGINE)]
    found = {one.name: names_of_all(one) for one in packages if not is_within(one.name, PRIVATE)}
    return {ENGINE: names_of_stub(STUB), **{name: names for name, names in found.items() if names}}


EXPORTS = exports()
PUBLIC_NAMES = set().union(*EXPORTS.values())


def private_imports(source: Source, *, own: str, helpers: tuple[str, ...] = ()) -> Iterator[str]:
    for found in imports(source):
        module, name = found.module, found.name
        if not is_within(module, ENGINE) or is_within(module, own) or module in MODULES:
            continue
        if name not in PUBLIC_NAMES and any(is_within(module, helper) for helper in helpers):
            continue
        if module not in EXPORTS:
            yield f"line {found.line}: {module} is inside the engine; import what a package of it exports"
        elif name and name not in EXPORTS[module]:
            yield f"line {found.line}: {module} does not export {name}"


def by_path(source: Source) -> str:
    return source.path


@pytest.mark.parametrize("source", [one for one in SOURCES.values() if is_within(one.name, PROVIDER)], ids=by_path)
def test_the_provider_uses_public_names_only(source: Source) -> None:
    assert not list(private_imports(source, own=PROVIDER))


@pytest.mark.parametrize("edge", EDGES)
def test_command_line_and_dashboard_use_public_names_only(edge: str) -> None:
    within = [one for one in SOURCES.values() if is_within(one.name, edge)]
    assert within
    assert [f"{one.path}, {found}" for one in within for found in private_imports(one, own=edge, helpers=HELPERS)] == []


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("from chasqui_engine import Queue", True),
        ("import chasqui_engine", True),
        ("from chasqui_engine.admin import QueueMonitor", True),
        ("from chasqui_engine.schedule import plan_fires", True),
        ("from chasqui_engine.payload_json import to_json", True),
        ("from chasqui_engine import _redis", False),
        ("from chasqui_engine import Quue", False),
        ("from chasqui_engine.queue.queue import Queue", False),
        ("import chasqui_engine.queue.queue", False),
        ("from chasqui_engine.admin.monitor import QueueMonitor", False),
        ("from chasqui_engine.metrics import _locked", False),
        ("from chasqui_engine._redis.commands import stats", False),
        ("from chasqui_engine.runtime.clock import now_ms", False),
    ],
)
def test_reaching_past_the_public_names_is_seen(code: str, fine: bool) -> None:
    found = list(private_imports(Source(f"{PROVIDER}.hooks.chasqui", False, code), own=PROVIDER))
    assert (not found) == fine


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("from chasqui_engine.runtime.clock import now_ms", True),
        ("from chasqui_engine.cli.session import fail", True),
        ("from chasqui_engine.values.errors import ConfigError", False),
        ("from chasqui_engine._redis.client import link", False),
        ("from chasqui_engine.dashboard.pool import Pool", False),
    ],
)
def test_the_command_line_may_use_helpers_but_for_public_names(code: str, fine: bool) -> None:
    source = Source(f"{ENGINE}.cli.app", False, code)
    assert (not list(private_imports(source, own=f"{ENGINE}.cli", helpers=HELPERS))) == fine


def test_names_are_read_from_stub_and_all() -> None:
    assert names_of_stub("from chasqui_engine.queue.queue import Queue as Queue\n") == {"Queue"}
    assert names_of_all(Source("x", True, '__all__ = [\n    "Queue",\n    "Worker",\n]')) == {"Queue", "Worker"}
