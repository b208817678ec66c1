"""`kill -9` of workers at work, many times, beside the same done to ChasquiMQ: what is begun again, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from tests.support.faults.fleet import Ledger
from tests.support.faults.kills import CONCURRENCY, Killed, kill_again_and_again

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("CHASQUI_SOAK_KILLS", "40"))
JOBS = max(5000, 800 * KILLS)
"""Enough that every victim is at work when it dies, however late that is noticed."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("work_ms", [50, 5])
async def test_fewer_jobs_are_begun_again_than_by_chasquimq(
    redis86_url: str, queue_name: str, tmp_path: Path, work_ms: int
) -> None:
    killed: dict[str, Killed] = {}
    async with Redis.from_url(redis86_url) as raw:
        for engine in ("chasqui_engine", "chasquimq"):
            ledger, queue = Ledger(tmp_path / engine), f"{queue_name}-{engine}"
            settings = {"jobs": JOBS, "kills": KILLS, "work_ms": work_ms, "engine": engine}
            killed[engine] = await kill_again_and_again(redis86_url, raw, queue, ledger, **settings)  # type: ignore[arg-type]
            print(f"{work_ms} ms a job, {engine}: {killed[engine]}")
    ours, theirs = killed["chasqui_engine"], killed["chasquimq"]
    assert ours.running <= ours.in_hand <= KILLS * CONCURRENCY
    assert ours.ended < theirs.ended
