"""ChasquiMQ in one process for the whole session, and both engines on a queue of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from tests.wire.ours import Ours
from tests.wire.theirs import PeerProcess, Theirs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chasqui_engine._redis.commands.keys import QueueKeys


@pytest.fixture(scope="session")
def peer(redis86_url: str) -> Iterator[PeerProcess]:
    process = PeerProcess(redis86_url)
    yield process
    process.close()


@pytest.fixture
async def theirs(peer: PeerProcess, queue_name: str) -> AsyncIterator[Theirs]:
    queue = Theirs(peer, queue_name)
    yield queue
    await queue.stop()


@pytest.fixture
async def ours(redis86_url: str, queue_name: str) -> AsyncIterator[Ours]:
    async with Ours(queue_name, redis86_url) as queue:
        yield queue


@pytest.fixture
async def server(redis86_url: str) -> AsyncIterator[Redis]:
    """A plain client that gives bytes, to look at what is really there."""
    async with Redis.from_url(redis86_url) as client:
        yield client


@pytest.fixture
def keys(queue_name: str) -> QueueKeys:
    from chasqui_engine._redis.commands.keys import QueueKeys

    return QueueKeys(queue_name)
