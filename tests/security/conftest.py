"""A server whose users have the rights of the shipped ACL files, and somebody there who may do anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from tests.security.acl import guarded_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.servers import ServerProcess


@pytest.fixture
def guarded(server_kind: str, tmp_path: Path) -> Iterator[ServerProcess]:
    with guarded_server(server_kind, tmp_path) as server:
        yield server


@pytest.fixture
async def admin(guarded: ServerProcess) -> AsyncIterator[Redis]:
    async with Redis.from_url(guarded.url) as client:
        yield client
