"""A server for each file of this folder, and on it a queue that anybody wrote into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from tests.servers import VALKEY, ServerProcess
from tests.support.hostile.filling import Filled, add_neighbours, fill, take_some
from tests.support.hostile.seeds import COUNT, SEED

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    """Of its own: hostile names are in the way of every other test that lists the queues of a server."""
    with ServerProcess(VALKEY) as server:
        yield server.url


@pytest.fixture(scope="module")
def client(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as one:
        yield one


@pytest.fixture(scope="module")
def filled(client: redis.Redis) -> Filled:
    """A queue with hostile data in all of its keys, some of it in the hands of workers, among queues as bad."""
    filled = fill(client, "0-fuzz", SEED, COUNT)
    take_some(client, filled.queue, SEED)
    add_neighbours(client, SEED)
    return filled
