"""Cluster: a queue lives on the node that owns its slot, wherever that goes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from redis.crc import key_slot

from chasqui_engine import Job, Queue, QueueEvents, RedisError, UnrecoverableError
from tests.servers import KINDS
from tests.support.connections.clusters import Cluster
from tests.support.ledger import Ledger, check_round_trip, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(request.param) as cluster:
        yield cluster


def slot_of(queue_name: str) -> int:
    slot: int = key_slot(f"{{chasqui:{queue_name}}}:stream".encode())
    return slot


async def test_queues_on_every_node(cluster: Cluster, queue_name: str) -> None:
    owners = set()
    for n in range(6):
        await check_round_trip(f"{queue_name}-{n}", cluster.url)
        owners.add(cluster.owner(slot_of(f"{queue_name}-{n}")))
    assert len(owners) > 1


async def test_one_node_is_enough_to_find_all(cluster: Cluster, queue_name: str) -> None:
    for n in range(3):
        await check_round_trip(f"{queue_name}-{n}", f"redis+cluster://127.0.0.1:1,127.0.0.1:{cluster.nodes[n].port}")


async def test_a_url_as_chasquimq_spells_it(cluster: Cluster, queue_name: str) -> None:
    await check_round_trip(queue_name, f"valkey-cluster://127.0.0.1:1?node=127.0.0.1:{cluster.nodes[0].port}")


async def test_a_server_that_is_no_cluster(valkey_url: str) -> None:
    async with Queue("q", redis_url=valkey_url.replace("redis://", "redis+cluster://")) as queue:
        with pytest.raises(RedisError, match="cluster support disabled"):
            await queue.add("n", 1)


async def test_a_cluster_of_which_one_server_is_named_as_if_it_stood_alone(
    cluster: Cluster, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says where the queue is."""
    monkeypatch.setattr("chasqui_engine.admin.admin.A_MOMENT_S", 0.3)
    owner = cluster.owner(slot_of(queue_name))
    elsewhere = cluster.nodes[(owner + 1) % 3].port
    async with Queue(queue_name, redis_url=f"redis://127.0.0.1:{elsewhere}") as queue:
        with pytest.raises(RedisError, match=f"MOVED .*:{cluster.nodes[owner].port}"):
            await queue.add("n", 1)


async def test_credentials_are_asked_for_with_the_real_nodes(cluster: Cluster, queue_name: str) -> None:
    asked = set()

    def fetch(address: str | None) -> tuple[None, None]:
        asked.add(address)
        return None, None

    await check_round_trip(queue_name, cluster.url, credential_provider=fetch)
    assert asked <= {f"127.0.0.1:{node.port}" for node in cluster.nodes}
    assert f"127.0.0.1:{cluster.nodes[cluster.owner(slot_of(queue_name))].port}" in asked


async def test_a_slot_that_moves_under_load(cluster: Cluster, queue_name: str) -> None:
    """Twice, with jobs now and later, a worker and a follower of events: none is lost, none runs twice."""
    slot, added, stop = slot_of(queue_name), 0, asyncio.Event()
    completed = Counter[str | None]()

    async def produce(queue: Queue) -> None:
        nonlocal added
        while not stop.is_set():
            await queue.add("now", added, job_id=f"id-{added}")
            await queue.add("soon", added + 1, job_id=f"id-{added + 1}", delay_ms=30)
            added += 2
            await asyncio.sleep(0.005)

    async def follow(events: QueueEvents) -> None:
        async for event in events:
            if event.name == "completed":
                completed[event.job_id] += 1

    async with (
        working(queue_name, cluster.url, store_results=True) as ledger,
        Queue(queue_name, redis_url=cluster.url) as queue,
        QueueEvents(queue_name, redis_url=cluster.url, last_event_id="0", block_ms=200) as events,
    ):
        following = asyncio.create_task(follow(events))
        producing = asyncio.create_task(produce(queue))
        await until(ledger.has(20))
        for _ in range(2):
            with cluster.moving(slot) as target:
                seen = added
                await asyncio.sleep(0.2)  # long enough for everybody to run into it
                assert added <= seen + 2, "an add went through while its keys were on their way"
            reached = len(ledger.runs)
            await until(ledger.has(reached + 40))
            assert cluster.owner(slot) == target
        stop.set()
        await producing
        await until(ledger.has(added))
        await until(lambda: len(completed) >= added)
    await following
    print(f"{added} jobs, 2 moves, {ledger.twice} run twice")
    _check_each_once(ledger, added, completed)


def _check_each_once(ledger: Ledger, added: int, completed: Counter[str | None]) -> None:
    assert set(ledger.runs) == set(range(added))
    assert ledger.twice == 0
    assert completed == {f"id-{n}": 1 for n in range(added)}


class FailingLedger(Ledger):
    """Half of the jobs fail once, and the others are buried once."""

    async def handle(self, job: Job) -> Any:
        first = job.data not in self.runs
        await super().handle(job)
        if first and job.data % 4 < 2:
            raise UnrecoverableError("no")
        if first:
            raise ValueError("once")


async def test_priorities_on_a_node(cluster: Cluster, queue_name: str) -> None:
    """Added, changed, delayed, retried, buried and replayed: every script names its keys."""
    ledger = FailingLedger()
    async with Queue(queue_name, redis_url=cluster.url) as queue:
        jobs = [{"name": "n", "data": n, "priority": 1 + n % 3, "delay_ms": n % 2 * 900} for n in range(30)]
        added = await queue.add_bulk([{**job, "headers": {"a": "b"}} for job in jobs])
        assert await queue.change_priority(added[0].id, 9)
        assert await queue.cancel_delayed(added[2].id)
        assert await queue.remove(added[4].id)
        assert len(await queue.get_jobs("prioritized")) + len(await queue.get_jobs("delayed")) == 28
        async with working(queue_name, cluster.url, ledger, max_attempts=2):
            await until(lambda: ledger.runs.total() == 28 + sum(n % 4 >= 2 for n in range(30)) - 1)
            assert await queue.replay_dlq() == 15
            await until(lambda: ledger.runs.total() == 2 * 28)
        assert (await queue.counts()).prioritized == 0


async def test_limits_on_a_node(cluster: Cluster, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=cluster.url) as queue, working(queue_name, cluster.url) as ledger:
        await queue.set_limits(rate=(1000, 1), concurrency=2)
        await queue.add_bulk([{"name": "n", "data": n, "priority": n % 3} for n in range(30)])
        await until(ledger.has(30))
        assert await queue.clear_limits()
