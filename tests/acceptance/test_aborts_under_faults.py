"""Aborts while workers are killed: each job ends exactly once, and none that was aborted completes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import Queue
from tests.support.faults.fleet import EMPTY, Fleet, Ledger, left_over
from tests.support.queues import events_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis

JOBS, KILLS, CONCURRENCY = 600, 4, 20


@pytest.mark.timeout(240)
async def test_no_aborted_job_completes_and_none_is_lost_or_ends_twice(
    redis_url: str, raw: Redis, queue_name: str, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    settings = {"concurrency": CONCURRENCY, "spread": 0.5, "claim_min_idle_ms": 800, "max_attempts": 50, "work_ms": 100}
    answers: dict[str, str] = {}
    async with Queue(queue_name, redis_url=redis_url) as queue:
        jobs = await queue.add_bulk([{"name": "n", "data": n} for n in range(JOBS)])
        chosen = random.sample(jobs[: JOBS // 2], JOBS // 5)

        async def abort(job_id: str) -> None:
            answers[job_id] = await queue.abort(job_id, timeout=1)

        with Fleet(redis_url, queue_name, ledger, **settings) as fleet:
            for kill in range(KILLS):
                victim = fleet.start()
                await until(lambda pid=victim.pid: len(ledger.begun_by(pid)) >= CONCURRENCY, timeout_s=60)
                active = [one.job_id for one in await queue.list_active() if one.job_id]
                some = {*random.sample(active, min(5, len(active))), *(job.id for job in chosen[kill::KILLS])}
                # Each once: of one that was asked for before, a second answer says less.
                aborting = [asyncio.create_task(abort(job_id)) for job_id in some - answers.keys()]
                await asyncio.sleep(random.uniform(0, 0.3))
                fleet.kill(victim)
                await asyncio.gather(*aborting)
            fleet.start(work_ms=1, concurrency=100)
            await until(lambda: _is_empty(raw, queue_name), timeout_s=60)
    ends: dict[str, list[str]] = {job.id: [] for job in jobs}
    for event in await events_of(raw, queue_name):
        if event["e"] in ("completed", "aborted", "dlq"):
            ends[event["id"]].append(event["e"])
    assert [job_id for job_id, kinds in ends.items() if len(kinds) != 1] == [], "each ends once"
    expected = {"removed": "aborted", "aborted": "aborted", "gone": "completed"}
    wrong = {job_id: (said, ends[job_id]) for job_id, said in answers.items() if said in expected}
    assert [one for one in wrong.values() if one[1] != [expected[one[0]]]] == []
    counts = Counter(kinds[0] for kinds in ends.values())
    print(f"{JOBS} jobs, {KILLS} kills: {dict(counts)}; {dict(Counter(answers.values()))}")
    assert counts["aborted"] >= JOBS // 10


async def _is_empty(raw: Redis, queue: str) -> bool:
    return await left_over(raw, queue) == EMPTY
