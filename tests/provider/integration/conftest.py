"""Fixtures for triggers on a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from chasqui_engine import Queue
from tests.provider.integration.queue_state import State


@pytest.fixture
async def state(queue_url: str, queue_name: str) -> AsyncIterator[State]:
    async with Redis.from_url(queue_url) as client:
        yield State(client, queue_name)


@pytest.fixture
async def queue(queue_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=queue_url) as one:
        yield one
