"""A program moves over from chasquimq by changing its import: whatever it passed there is accepted here."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from inspect import Parameter
from typing import Any

import chasquimq
import pytest

import chasqui_engine
from chasqui_engine import native

CLASSES = [
    "Queue",
    "Worker",
    "QueueEvents",
    "QueueEvent",
    "BackoffSpec",
    "RepeatPattern",
    "MissedFiresPolicy",
    "RepeatableMeta",
]
# Theirs take and give bytes and dicts; ours of the same names do not, so these are in a module of their own.
NATIVE = ["Producer", "Consumer", "Scheduler"]
# Without a URL ours looks at CHASQUI_REDIS_URL first, and then takes the same one.
OTHER_DEFAULTS = {"redis_url"}
# Made by the engine, not by programs: theirs is a projection, ours one value for all layers.
NOT_COMPARED = {("Job", "__init__")}
SYNC = {("Producer", name) for name in ("stream_key", "delayed_key", "dlq_key", "producer_id")}
SYNC |= {("Consumer", "shutdown"), ("Scheduler", "shutdown")}
PROTOCOL = {"__init__", "__aenter__", "__aexit__"}


def methods() -> list[Any]:
    return [
        pytest.param(cls, name, id=f"{cls}.{name}")
        for cls in [*CLASSES, "Job"]
        for name in vars(getattr(chasquimq, cls))
        if callable(getattr(getattr(chasquimq, cls), name)) and (cls, name) not in NOT_COMPARED
        if not name.startswith("_") or name in PROTOCOL
    ]


def parameters(function: Any) -> dict[str, Parameter]:
    return {name: one for name, one in inspect.signature(function).parameters.items() if name != "self"}


@pytest.mark.parametrize(("cls", "method"), methods())
def test_every_method_accepts_what_theirs_accepts(cls: str, method: str) -> None:
    theirs = parameters(getattr(getattr(chasquimq, cls), method))
    ours = parameters(getattr(getattr(chasqui_engine, cls), method))
    if any(one.kind is Parameter.VAR_POSITIONAL for one in ours.values()):
        return  # `__aexit__`
    positional = [name for name, one in ours.items() if one.kind is not Parameter.KEYWORD_ONLY]
    for place, (name, their) in enumerate(theirs.items()):
        assert name in ours, f"{cls}.{method} does not take {name}"
        assert ours[name].kind is not Parameter.POSITIONAL_ONLY
        if their.kind is not Parameter.KEYWORD_ONLY:
            assert positional[place] == name
        if name not in OTHER_DEFAULTS and their.default is not Parameter.empty:
            assert ours[name].default == their.default
    for name, our in ours.items():
        assert name in theirs or our.default is not Parameter.empty, f"{cls}.{method} needs {name}, which theirs lacks"


@pytest.mark.parametrize(("cls", "method"), methods())
def test_what_is_awaited_there_is_awaited_here(cls: str, method: str) -> None:
    theirs, ours = (getattr(getattr(module, cls), method) for module in (chasquimq, chasqui_engine))
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


@pytest.mark.parametrize("cls", NATIVE)
def test_a_native_class_is_made_with_what_theirs_is_made_with(cls: str) -> None:
    theirs, ours = (parameters(getattr(module, cls)) for module in (chasquimq, native))
    assert list(ours) == list(theirs)
    assert {name: one.kind for name, one in ours.items()} == {name: one.kind for name, one in theirs.items()}
    # A default that their signature does not show.
    shown = {name: one.default for name, one in theirs.items() if one.default is not Ellipsis}
    assert {name: one.default for name, one in ours.items() if name in shown} == shown


@pytest.mark.parametrize("cls", NATIVE)
def test_a_native_class_has_every_method_of_theirs(cls: str) -> None:
    their_methods = {name: one for name, one in vars(getattr(chasquimq, cls)).items() if not name.startswith("_")}
    for name, theirs in their_methods.items():
        ours = getattr(getattr(native, cls), name)
        assert list(parameters(ours)) == list(parameters(theirs)), name
        waits = inspect.iscoroutinefunction(ours)
        assert waits == (
            name not in {"stream_key", "delayed_key", "dlq_key", "producer_id"} and (cls, name) not in SYNC
        )


def test_the_native_module_has_every_name_of_theirs() -> None:
    assert set(chasquimq.__all__) <= set(native.__all__)


@pytest.mark.parametrize("cls", [*CLASSES, "Job"])
def test_every_property_is_there(cls: str) -> None:
    theirs, ours = getattr(chasquimq, cls), getattr(chasqui_engine, cls)
    names = [name for name, member in vars(theirs).items() if isinstance(member, property)]
    names += [name for name in getattr(theirs, "__dataclass_fields__", {}) if not name.startswith("_")]
    assert [name for name in names if not hasattr(ours, name) and name not in ours.__dataclass_fields__] == []


@pytest.mark.parametrize("name", chasquimq.__all__)
def test_every_name_of_theirs_can_be_imported(name: str) -> None:
    assert name in chasqui_engine.__all__


BAD_ARGUMENTS: list[dict[str, Any]] = [
    {"delay_ms": -1},
    {"delay_ms": float("nan")},
    {"delay_ms": float("inf")},
    {"delay_ms": "1"},
    {"delay_ms": True},
    {"delay_ms": 1, "delay": timedelta(1)},
    {"delay": 5},
    {"delay": timedelta(-1)},
    {"backoff": "x"},
    {"backoff": True},
    {"job_id": " "},
    {"job_id": ""},
    {"job_id": 3},
    {"missed_fires": {"kind": "skip"}},
    {"repeat": "daily"},
    {"repeat": {"kind": "moon"}},
]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=repr)
def test_bad_arguments_raise_what_they_raise_there(arguments: dict[str, Any]) -> None:
    """Found before anybody connects, so that no server is needed."""

    async def error_of(queue: Any) -> Exception:
        with pytest.raises((ValueError, TypeError)) as raised:
            await queue.add("n", 1, **arguments)
        return raised.value

    theirs = asyncio.run(error_of(chasquimq.Queue("q", redis_url="redis://127.0.0.1:1")))
    ours = asyncio.run(error_of(chasqui_engine.Queue("q", redis_url="redis://127.0.0.1:1")))
    assert isinstance(ours, type(theirs))
    assert any(field in str(ours) for field in [*arguments, "kind"])
