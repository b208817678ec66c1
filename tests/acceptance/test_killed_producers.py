"""`kill -9` of a producer in the middle of a bulk; whoever comes next sends the same ids again."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.faults.fleet import ROOT
from tests.support.queues import waiting_jobs

if TYPE_CHECKING:
    from redis.asyncio import Redis

JOBS, BULK, KILLS = 6000, 250, 4


def produce(url: str, queue: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.acceptance.producer_main", url, queue, str(JOBS), str(BULK)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


async def test_each_id_is_there_once_however_often_its_producer_died(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    for kill in range(KILLS):
        victim = produce(redis_url, queue_name)
        assert victim.stdout is not None
        for _ in range(2 + kill * 4):  # each gets a bit further, through all that is there already
            victim.stdout.readline()
        victim.kill()
        victim.wait()
        victim.stdout.close()
    last = produce(redis_url, queue_name)
    last.communicate(timeout=30)
    assert last.returncode == 0
    numbers = [job.payload for job in await waiting_jobs(raw, queue_name)]
    assert sorted(numbers) == list(range(JOBS))
