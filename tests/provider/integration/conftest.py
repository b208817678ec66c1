"""Fixtures for triggers on a queue, and for what needs Airflow's database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from chasqui_engine import Queue
from tests.provider.integration.queue_state import State


@pytest.fixture(scope="session")
def airflow_tables() -> None:
    """Airflow's tables, in the tests' own home."""
    command = [str(Path(sys.executable).parent / "airflow"), "db", "migrate"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.fixture
def listening() -> Iterator[None]:
    """The plugin's listener at work, as Airflow sets it up; it may have done so already."""
    from airflow.listeners.listener import get_listener_manager

    from chasqui_provider.plugins.chasqui import ChasquiPlugin

    manager = get_listener_manager()
    (listener,) = ChasquiPlugin.listeners
    manager.add_listener(listener)
    yield
    manager.clear()


@pytest.fixture
async def state(queue_url: str, queue_name: str) -> AsyncIterator[State]:
    async with Redis.from_url(queue_url) as client:
        yield State(client, queue_name)


@pytest.fixture
async def queue(queue_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=queue_url) as one:
        yield one
