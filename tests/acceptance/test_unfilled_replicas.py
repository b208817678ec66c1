"""Sentinel promotes a replica that is still being filled, if people ask for it: what that costs, and how to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis

from chasqui_engine import Queue
from tests.servers import VALKEY
from tests.support.connections.failovers import is_in_step
from tests.support.connections.sentinels import Watched, wait_until

if TYPE_CHECKING:
    from tests.servers import ServerProcess

JOBS = 200
KEYS = 2000
SLOWLY_US = 1000
"""For each key, while the replica is being filled: two seconds in all."""


def fill_again(watched: Watched) -> None:
    """Has the replica forget what it has, and be filled slowly; returns while that goes on."""
    with redis.Redis(port=watched.master.port) as master, redis.Redis(port=watched.replica.port) as replica:
        pipe = master.pipeline()
        for number in range(KEYS):
            pipe.set(f"filler:{number}", number)
        pipe.execute()
        master.config_set("rdb-key-save-delay", SLOWLY_US)
        replica.execute_command("REPLICAOF", "NO", "ONE")
        replica.flushall()
        replica.execute_command("REPLICAOF", "127.0.0.1", watched.master.port)
        wait_until(lambda: _replica(master).get("state") in ("wait_bgsave", "send_bulk"), "a replica being filled")


def promote(watched: Watched) -> ServerProcess:
    """Asks for a failover now; returns the server that is the master then."""
    asked = watched.sentinels[0]
    before = asked.master()["port"]
    wait_until(asked.fail_over, "a failover that can begin")
    wait_until(lambda: asked.master()["port"] != before, "another master")
    return watched.replica


def _replica(master: redis.Redis) -> dict[str, Any]:
    facts: dict[str, Any] = master.info("replication")
    found: dict[str, Any] = facts.get("slave0", {})
    return found


@pytest.mark.parametrize("waits", [False, True])
async def test_a_replica_that_is_promoted_before_it_is_online_loses_what_it_has_not_got(
    queue_name: str, waits: bool
) -> None:
    with Watched(VALKEY) as watched:
        async with Queue(queue_name, redis_url=watched.url) as queue:
            for number in range(JOBS):
                await queue.add("n", number)
        fill_again(watched)
        if waits:
            with redis.Redis(port=watched.master.port) as master:
                wait_until(lambda: is_in_step(master), "a replica in step")
        with redis.Redis(port=promote(watched).port) as master:
            left = master.xlen(f"{{chasqui:{queue_name}}}:stream")
    assert left == (JOBS if waits else 0)
