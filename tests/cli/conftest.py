"""The command line in this process, for what it says; real processes and terminals are in `processes.py`."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import redis

from chasqui_engine import SyncQueue
from chasqui_engine.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def cli(valkey_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs a command line; the server is in the environment."""
    monkeypatch.setenv("CHASQUI_REDIS_URL", valkey_url)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*args: str, stdin: str | None = None) -> Said:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = run(list(args))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return call


@pytest.fixture
def queue(valkey_url: str, queue_name: str) -> Iterator[SyncQueue]:
    with SyncQueue(queue_name, redis_url=valkey_url) as opened:
        yield opened


@pytest.fixture
def client(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as opened:
        yield opened
