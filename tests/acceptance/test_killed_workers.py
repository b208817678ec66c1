"""Workers that die in the middle of their jobs, and workers that are told to go."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from chasqui_engine.runtime.clock import monotonic
from tests.support.faults.fleet import EMPTY, Fleet, Ledger, left_over
from tests.support.faults.kills import CONCURRENCY, add_numbered, kill_again_and_again
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis


@pytest.mark.timeout(180)
async def test_every_job_runs_and_only_what_was_in_hand_runs_again(
    redis_url: str, raw: Redis, queue_name: str, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    killed = await kill_again_and_again(redis_url, raw, queue_name, ledger, jobs=5000, kills=6, work_ms=50)
    print(killed)
    assert 0 < killed.running <= killed.in_hand <= killed.kills * CONCURRENCY
    # What ends while an ack is on its way: not much, as handlers take longer than a round trip does.
    assert killed.ended <= killed.kills * CONCURRENCY
    # Nobody began a job twice in one life.
    pids = [worker for worker in ledger.workers() if len(set(ledger.begun_by(worker))) != len(ledger.begun_by(worker))]
    assert pids == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("work_ms", "deadline_s"), [(3_000, 30), (40_000, 1)])
async def test_a_worker_that_is_told_to_stop_starts_nothing_more_and_leaves_the_rest_to_others(
    redis_url: str, raw: Redis, queue_name: str, tmp_path: Path, work_ms: int, deadline_s: float
) -> None:
    """With time for what runs to end, and without."""
    jobs = 200
    await add_numbered(redis_url, queue_name, jobs)
    ledger = Ledger(tmp_path / "ledger")
    settings = {"concurrency": CONCURRENCY, "shutdown_deadline_secs": deadline_s, "claim_min_idle_ms": 60_000}
    with Fleet(redis_url, queue_name, ledger, **settings) as fleet:
        worker = fleet.start(work_ms=work_ms)
        await until(lambda: len(ledger.starts()) == CONCURRENCY, timeout_s=30)
        worker.send_signal(signal.SIGTERM)
        told_at = monotonic()
        await asyncio.to_thread(worker.wait, 60)
        # The handlers' time or the deadline, whichever is less; the rest is for last words, on a busy machine.
        assert monotonic() - told_at < min(work_ms / 1000, deadline_s) + 5
        assert worker.returncode == 0
        assert len(ledger.starts()) == CONCURRENCY
        ended = CONCURRENCY if work_ms / 1000 < deadline_s else 0
        assert len(ledger.ends()) == ended
        assert await left_over(raw, queue_name) == {**EMPTY, "stream": jobs - ended}
        # Nothing is in the dead worker's name: another has all of it at once, long before anything counts as idle.
        fleet.start(work_ms=0, concurrency=100)
        await until(lambda: len(ledger.ends()) == jobs, timeout_s=30)
    assert ledger.again() == {"running": CONCURRENCY - ended, "ended": 0}
