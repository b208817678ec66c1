"""A worker on a queue that anybody wrote into: each entry is run or buried, and the good ones run, once."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from tests.support.consumers import consuming
from tests.support.hostile.filling import Filled, clear, fill
from tests.support.hostile.poisoning import dead_by_reason, settings
from tests.support.hostile.seeds import COUNT, SEED, SOAK_COUNT
from tests.support.measure import rss_mib
from tests.support.queues import server_ms
from tests.support.waiting import until

if TYPE_CHECKING:
    import redis

    from chasqui_engine import Job

LIMIT_S = 600.0
SOAK_CHUNK = 20_000
MOST_GROWTH_MIB = 100


class Ran:
    """A handler that gives every payload back."""

    def __init__(self) -> None:
        self.good: Counter[str] = Counter()
        self.runs = 0

    async def __call__(self, job: Job) -> Any:
        self.runs += 1
        if isinstance(job.payload, dict) and "good" in job.payload:
            self.good[job.payload["good"]] += 1
        return job.payload


async def work_off(url: str, client: redis.Redis, filled: Filled) -> Counter[str]:
    """Runs a worker until nothing is due; says what became of all entries."""
    ran, count = Ran(), filled.counts.total()
    async with Redis.from_url(url) as raw, consuming(url, filled.queue, ran, **settings(count)):
        now = await server_ms(raw)

        async def nothing_due() -> bool:
            root = f"{{chasqui:{filled.queue}}}"
            async with raw.pipeline() as pipe:
                left = await pipe.xlen(f"{root}:stream").zcount(f"{root}:delayed", "-inf", now).execute()
            return bool(left == [0, 0])

        await until(nothing_due, timeout_s=LIMIT_S)
        later = int(await raw.zcard(f"{{chasqui:{filled.queue}}}:delayed"))
        reasons = await dead_by_reason(raw, filled.queue)
    assert ran.good == dict.fromkeys([*filled.good["stream"], *filled.good["delayed"]], 1)
    # A result that cannot be written buries its job after the run.
    well = ran.runs - reasons[b"unrecoverable"]
    assert well + reasons.total() + later == count
    return Counter({"ran": well, "later": later, **{key.decode(): value for key, value in reasons.items()}})


async def test_each_entry_is_run_or_buried(valkey_url: str, client: redis.Redis, queue_name: str) -> None:
    filled = fill(client, queue_name, SEED, 5 * COUNT, ("stream", "delayed"), due=True)
    print(await work_off(valkey_url, client, filled))


async def test_good_repeatables_fire_among_hostile_ones(valkey_url: str, client: redis.Redis, queue_name: str) -> None:
    filled, ran = fill(client, queue_name, SEED, COUNT, ("repeat",), due=True), Ran()
    async with consuming(valkey_url, queue_name, ran, **settings(10**6)):
        await until(lambda: set(ran.good) >= set(filled.good["repeat"]), timeout_s=LIMIT_S)
    assert set(ran.good.values()) == {1}


@pytest.mark.soak
@pytest.mark.timeout(3000)
async def test_a_million_entries_are_run_or_buried(valkey_url: str, client: redis.Redis, queue_name: str) -> None:
    # Every record that pytest captures would count as memory of the engine.
    logging.getLogger("chasqui").setLevel(logging.CRITICAL)
    outcomes: Counter[str] = Counter()
    before = 0.0
    for number in range(max(1, SOAK_COUNT // SOAK_CHUNK)):
        queue = f"{queue_name}-{number}"
        filled = fill(client, queue, SEED + number, SOAK_CHUNK // 2, ("stream", "delayed"), due=True)
        outcomes += await work_off(valkey_url, client, filled)
        clear(client, queue)
        before = before or rss_mib()
    growth = rss_mib() - before
    print(f"{outcomes.total()} entries: {dict(outcomes)}; {growth:+.0f} MiB")
    assert growth < MOST_GROWTH_MIB
