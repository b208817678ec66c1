"""The public names. What is added here stays."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib.metadata import version as installed_version

import pytest

import chasqui_engine

NAMES = [
    "AddOptions",
    "BackoffKind",
    "BackoffSpec",
    "BatchError",
    "ChasquiError",
    "ConfigError",
    "Consumer",
    "ConsumerConfig",
    "DecodeError",
    "DlqEntry",
    "DlqReason",
    "EncodeError",
    "Handler",
    "HandlerError",
    "HandlerRegistry",
    "Job",
    "JobAbortedError",
    "JobExpiredError",
    "JobFailedError",
    "JobId",
    "JobIdFilter",
    "JobInfo",
    "JobRetryOverride",
    "JobState",
    "JobTimeoutError",
    "MissedFiresPolicy",
    "NotSupportedError",
    "Producer",
    "ProducerConfig",
    "Promoter",
    "PromoterConfig",
    "Queue",
    "QueueBusyError",
    "QueueEvent",
    "QueueEvents",
    "QueueFullError",
    "QueueLimits",
    "RedisError",
    "RefusedError",
    "RepeatPattern",
    "RepeatableMeta",
    "RepeatableSpec",
    "ResultUnavailableError",
    "RetryConfig",
    "RetryLater",
    "Scheduler",
    "SchedulerConfig",
    "ShutdownError",
    "SyncQueue",
    "UnrecoverableError",
    "Worker",
    "handler",
    "name_program",
    "version",
]
# Where nothing but a value can be exported there is no docstring to ask for.
ALIASES = {"Handler", "JobId"}


def test_the_names_are_these() -> None:
    assert list(chasqui_engine.__all__) == NAMES


def test_every_name_is_there() -> None:
    for name in NAMES:
        assert getattr(chasqui_engine, name) is not None


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
