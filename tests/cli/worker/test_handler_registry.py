"""Handlers by name."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading
from typing import Any

import pytest

from chasqui_engine import ConfigError, HandlerError, Job
from chasqui_engine.worker.handler_registry import HandlerRegistry


def job(name: str, payload: Any = None) -> Job:
    return Job(id="x", payload=payload, created_at_ms=1, name=name)


def plain(job: Job) -> str:
    return f"plain {job.name}"


async def test_async_and_plain_side_by_side() -> None:
    registry = HandlerRegistry()
    main = threading.get_ident()

    @registry.handler("loop")
    async def in_the_loop(job: Job) -> bool:
        await asyncio.sleep(0)
        return threading.get_ident() == main

    @registry.handler("thread", "other")
    def in_a_thread(job: Job) -> bool:
        return threading.get_ident() == main

    run = registry.dispatcher()
    assert [await run(job(name)) for name in ("loop", "thread", "other")] == [True, False, False]
    assert registry.names == ["loop", "other", "thread"]
    with pytest.raises(HandlerError, match="no handler for jobs named 'x'; there are loop, other, thread"):
        await run(job("x"))


def test_an_unknown_name_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    registry = HandlerRegistry()
    registry.handler("known")(plain)
    run = registry.dispatcher()
    for name in ("x", "y", "x", "known", "x"):
        with contextlib.suppress(HandlerError):
            run(job(name))
    assert [record.getMessage() for record in caplog.records] == [
        f"no handler for jobs named '{name}', there are known; such jobs are retried, in case another worker has one"
        for name in ("x", "y")
    ]


def test_plain_ones_alone_stay_plain_and_can_be_sent_to_a_process() -> None:
    registry = HandlerRegistry()
    registry.handler()(plain)
    run = pickle.loads(pickle.dumps(registry.dispatcher()))
    assert run(job("anything")) == "plain anything"


def test_what_cannot_be_registered() -> None:
    registry = HandlerRegistry()
    with pytest.raises(ConfigError, match="no handler is registered"):
        registry.dispatcher()
    registry.handler("a")(plain)
    registry.handler()(plain)
    with pytest.raises(ConfigError, match="already is a handler for 'a'"):
        registry.handler("a")(plain)
    with pytest.raises(ConfigError, match="all other names"):
        registry.handler()(plain)
    with pytest.raises(ConfigError, match="@handler"):
        registry.handler(plain)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="generator"):
        registry.handler("g")(lambda job: (yield))
