"""Adding many jobs and waiting for all their results at once, with a worker at hand."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, BenchError
from benchmarks.peers.peer import Work
from benchmarks.scenarios.scenario import Scenario


async def _wait_for_all(bench: Bench) -> dict[str, float]:
    async with bench.warm_workers():
        began = time.perf_counter()
        results = await bench.peer.results(bench.numbers)
        took_s = time.perf_counter() - began
    if sorted(results) != list(bench.numbers):
        raise BenchError("the results are not what the handlers returned")
    return {"results": bench.jobs / took_s}


SCENARIOS = [
    Scenario(
        name="results",
        what="add jobs and wait for all results at once",
        jobs=5_000,
        quick_jobs=2_000,
        measure=_wait_for_all,
        work=Work(results=True, events=True),
    )
]
