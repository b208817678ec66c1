"""What tests of the producing side begin with: a producer, and a queue, of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui_engine import Producer, ProducerConfig, Queue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def producer(redis_url: str, queue_name: str) -> AsyncIterator[Producer]:
    async with await Producer.connect(redis_url, ProducerConfig(queue_name=queue_name)) as connected:
        yield connected


@pytest.fixture
async def queue(redis_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=redis_url) as opened:
        yield opened
