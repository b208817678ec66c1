"""Planned failovers in a row under a load of thousands of jobs a second: what is lost, and what runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from tests.servers import KINDS
from tests.support.connections.failovers import Load, fail_over
from tests.support.connections.sentinels import Watched

if TYPE_CHECKING:
    from tests.servers import ServerProcess

pytestmark = pytest.mark.soak

_LOAD = Load(producers=40, pause_s=0.02, job_s=0.05, concurrency=60)
_FAILOVERS = 3


@pytest.mark.parametrize("min_replicas", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
async def test_failovers_in_a_row_lose_nothing(queue_name: str, kind: str, min_replicas: int) -> None:
    with Watched(kind) as watched:
        for server in (watched.master, watched.replica):
            _ask_for_replicas(server, min_replicas)
        outcome = await fail_over(watched, queue_name, _LOAD, _FAILOVERS)
    print(f"{kind}, min-replicas-to-write {min_replicas}: {outcome}")
    assert (outcome.lost, outcome.unwritten) == (0, 0)


def _ask_for_replicas(server: ServerProcess, count: int) -> None:
    with redis.Redis(port=server.port) as client:
        client.config_set("min-replicas-to-write", count)
