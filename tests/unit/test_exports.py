"""The public names. What is added here stays."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib.metadata import version as installed_version

import pytest

import chasqui_engine

NAMES = [
    "EVENT_NAMES",
    "AddOptions",
    "BackoffKind",
    "BackoffSpec",
    "ChasquiError",
    "ConfigError",
    "Consumer",
    "ConsumerConfig",
    "ConsumerInfo",
    "DecodeError",
    "DelayedJob",
    "DlqEntry",
    "DlqReason",
    "DlqRouted",
    "EncodeError",
    "FirePlan",
    "Handler",
    "HandlerError",
    "HandlerRegistry",
    "InMemorySink",
    "Job",
    "JobFailedError",
    "JobId",
    "JobIdFilter",
    "JobInfo",
    "JobOutcome",
    "JobOutcomeKind",
    "JobRetryOverride",
    "JobState",
    "JobTimeoutError",
    "LockOutcome",
    "MetricsSink",
    "MissedFiresPolicy",
    "NoopSink",
    "NotSupportedError",
    "OtelSink",
    "Producer",
    "ProducerConfig",
    "PrometheusSink",
    "Promoter",
    "PromoterConfig",
    "PromoterTick",
    "Queue",
    "QueueCounts",
    "QueueEvent",
    "QueueEvents",
    "QueueFullError",
    "QueueHealth",
    "QueueSnapshot",
    "ReaderBatch",
    "RedisError",
    "RefusedError",
    "RepeatPattern",
    "RepeatableMeta",
    "RepeatableSpec",
    "ResultUnavailableError",
    "RetryConfig",
    "RetryScheduled",
    "Scheduler",
    "SchedulerConfig",
    "ShutdownError",
    "SyncQueue",
    "Throughput",
    "UnrecoverableError",
    "Worker",
    "first_fire_ms",
    "handler",
    "name_program",
    "noop_sink",
    "plan_fires",
    "version",
]
# Where nothing but a value can be exported there is no docstring to ask for.
ALIASES = {"Handler", "JobId"}


def test_the_names_are_these() -> None:
    assert list(chasqui_engine.__all__) == NAMES


def test_every_name_is_there() -> None:
    for name in NAMES:
        assert getattr(chasqui_engine, name) is not None


def test_type_checkers_see_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse(inspect.getsource(chasqui_engine))
    seen = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        node.module.removeprefix("chasqui_engine."): tuple(alias.name for alias in node.names)
        for node in seen.body
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert told == chasqui_engine._HOMES
    assert sorted(chasqui_engine._MODULE_OF) == sorted(NAMES)


def test_importing_the_package_imports_nothing_of_it_yet() -> None:
    theirs = "name.startswith(('chasqui_engine.', 'redis'))"
    code = f"import sys, chasqui_engine; print([name for name in sys.modules if {theirs}])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Quue'"):
        chasqui_engine.Quue  # noqa: B018


def test_every_name_is_documented() -> None:
    public = [(name, getattr(chasqui_engine, name)) for name in NAMES if name not in ALIASES]
    assert [name for name, value in public if not inspect.getdoc(value)] == []


def test_every_method_is_documented_and_annotated() -> None:
    lacking = []
    for name in NAMES:
        value = getattr(chasqui_engine, name)
        if not inspect.isclass(value) or issubclass(value, BaseException):
            continue
        for attribute, member in vars(value).items():
            function = getattr(member, "__func__", getattr(member, "fget", None) or member)
            if attribute.startswith("_") or not inspect.isfunction(function):
                continue
            if not inspect.getdoc(function) or "return" not in function.__annotations__:
                lacking.append(f"{name}.{attribute}")
    assert lacking == []


def test_version() -> None:
    assert chasqui_engine.version() == installed_version("chasqui")
    assert re.match(r"\d+\.\d+", chasqui_engine.version())
