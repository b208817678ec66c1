"""What a worker holds while it works, and what a delayed job takes in Redis."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, peak_rss_mb
from benchmarks.peers.peer import Work
from benchmarks.scenarios.scenario import Scenario

_FILL = 1000


async def _measure_worker(bench: Bench) -> dict[str, float]:
    await bench.fill()
    with bench.workers() as pids:
        await bench.all_ran()
        peak = peak_rss_mb(pids)
    bench.check_ran()
    return {"memory worker": peak}


async def _measure_delayed(bench: Bench) -> dict[str, float]:
    await bench.peer.add(bench.jobs)
    bench.server.command("FLUSHDB SYNC")
    before = int(bench.server.info("used_memory"))
    due_s = int(time.time()) + 24 * 3600
    for batch in bench.batches(_FILL):
        await bench.peer.fill_delayed(batch, due_s)
    bench.check_waiting()
    return {"memory delayed": (int(bench.server.info("used_memory")) - before) / bench.jobs}


SCENARIOS = [
    Scenario(
        name="memory-worker",
        what="peak RSS of one worker process over the run",
        jobs=200_000,
        quick_jobs=None,
        measure=_measure_worker,
        work=Work(events=True),
        units={"memory worker": "MB"},
        most_repeats=3,
    ),
    Scenario(
        name="memory-delayed",
        what="Redis memory per delayed job",
        jobs=1_000_000,
        quick_jobs=None,
        measure=_measure_delayed,
        units={"memory delayed": "bytes/job"},
        most_repeats=1,
    ),
]
