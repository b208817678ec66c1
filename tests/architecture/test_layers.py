"""Who may import whom. A job's path runs from the top layer down; nothing below knows what is above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.source import Source, imports, product_files, read

if TYPE_CHECKING:
    from collections.abc import Iterator

ENGINE = "chasqui_engine"
PROVIDER = "chasqui_provider"

# The engine's modules by layer. `x.*` is a package with all that is in it.
LAYERS: tuple[tuple[str, ...], ...] = (
    # 0: values, pure
    ("values.*", "runtime.*", "schedule", "schedule.cron", "schedule.spec", "schedule.plan", "metrics.events"),
    # 1: bytes
    ("codec.*", "payload_json", "_redis.*"),
    # 2: services
    ("schedule.leader", "connections", "events.*", "metrics.*", "tally.*", "tracing"),
    # 3: roles
    ("queue", "queue.producer", "queue.enqueue", "consumer.*", "schedule.*", "admin.*"),
    # 4: what people type, and the edges
    ("", "queue.*", "worker.*", "testing", "native.*", "cli.*", "dashboard.*", "spark.*", "pipeline.*"),
)

# What only one place may know: the imported package → the modules that may import it.
OWNERS = {
    "airflow": (PROVIDER,),
    "redis": (f"{ENGINE}._redis",),
    "hiredis": (f"{ENGINE}._redis",),
    "msgpack": (f"{ENGINE}.codec",),
    "pyspark": (f"{ENGINE}.spark", f"{ENGINE}.pipeline", "pyspark_chasqui"),
}


def layer_of(module: str) -> int | None:
    """The layer of a dotted engine module, None if it is not listed."""
    local = module.removeprefix(ENGINE).removeprefix(".")
    for number, patterns in enumerate(LAYERS):
        for pattern in patterns:
            package = pattern.removesuffix(".*")
            if local == package or (pattern.endswith(".*") and local.startswith(f"{package}.")):
                return number
    return None


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def upward_imports(source: Source, modules: set[str]) -> Iterator[str]:
    own = layer_of(source.name)
    assert own is not None
    for found in imports(source):
        if not is_within(found.module, ENGINE):
            continue
        submodule = f"{found.module}.{found.name}"
        target = submodule if submodule in modules else found.module
        theirs = layer_of(target)
        if theirs is None:
            yield f"line {found.line}: {target} is in no layer"
        elif theirs > own:
            yield f"line {found.line}: layer {own} imports {target} of layer {theirs}"


def owned_imports(source: Source) -> Iterator[str]:
    for found in imports(source):
        owners = OWNERS.get(found.module.partition(".")[0])
        if owners and not any(is_within(source.name, owner) for owner in owners):
            yield f"line {found.line}: only {' and '.join(owners)} may import {found.module}"


SOURCES = {source.name: source for source in map(read, product_files())}
ENGINE_SOURCES = [source for source in SOURCES.values() if is_within(source.name, ENGINE)]


def by_path(source: Source) -> str:
    return source.path


@pytest.mark.parametrize("source", ENGINE_SOURCES, ids=by_path)
def test_every_module_has_a_layer(source: Source) -> None:
    assert layer_of(source.name) is not None, (
        f"{source.path} is in no layer: say in LAYERS of tests/architecture/test_layers.py where it belongs"
    )


@pytest.mark.parametrize("source", [s for s in ENGINE_SOURCES if layer_of(s.name) is not None], ids=by_path)
def test_no_layer_imports_a_higher_one(source: Source) -> None:
    assert not list(upward_imports(source, set(SOURCES)))


@pytest.mark.parametrize("source", SOURCES.values(), ids=by_path)
def test_each_library_is_known_in_one_place(source: Source) -> None:
    assert not list(owned_imports(source))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("values.job", "from chasqui_engine.codec.envelope import encode"),
        ("values.job", "from ..codec import encode"),
        ("values.config", "if TYPE_CHECKING:\n    from chasqui_engine.metrics import Sink"),
        ("codec.envelope", "def f():\n    import chasqui_engine.queue.producer"),
        ("queue.producer", "from chasqui_engine import Queue"),
        ("_redis.scripts", "from .. import queue"),
        ("events.reader", "from chasqui_engine.nowhere import x"),
    ],
)
def test_an_upward_import_is_seen(module: str, code: str) -> None:
    assert list(upward_imports(Source(f"{ENGINE}.{module}", False, code), {f"{ENGINE}.queue"}))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("queue.producer", "from chasqui_engine._redis.commands import keys"),
        ("queue.producer", "from chasqui_engine.admin.snapshot import x"),
        ("consumer.reader", "from .worker import x"),
        ("cli.app", "from chasqui_engine import Queue"),
        ("values.job", "import dataclasses"),
    ],
)
def test_a_downward_or_level_import_is_fine(module: str, code: str) -> None:
    assert not list(upward_imports(Source(f"{ENGINE}.{module}", False, code), {f"{ENGINE}._redis.commands.keys"}))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("chasqui_engine.queue.queue", "import airflow"),
        ("chasqui_engine.queue.producer", "from redis.asyncio import Redis"),
        ("chasqui_engine.admin.snapshot", "import hiredis"),
        ("chasqui_engine.values.job", "import msgpack"),
        ("chasqui_provider.hooks.chasqui", "import redis"),
        ("chasqui_engine.cli.main", "from pyspark.sql import SparkSession"),
    ],
)
def test_a_library_in_the_wrong_place_is_seen(module: str, code: str) -> None:
    assert list(owned_imports(Source(module, False, code)))
