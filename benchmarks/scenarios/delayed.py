"""Delayed jobs that fall due all at once. The clock runs from that moment to the start of the last."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, BenchError
from benchmarks.peers.peer import Work
from benchmarks.scenarios.scenario import Scenario

_EARLY_MS = 10


async def _fall_due(bench: Bench) -> dict[str, float]:
    due_s = await bench.fill_delayed()
    with bench.workers():
        due_ns = time.monotonic_ns() + int((due_s - time.time()) * 1e9)
        await bench.all_ran()
    bench.check_ran()
    early_ms = (due_ns - min(map(bench.record.started_ns, bench.numbers))) / 1e6
    if early_ms > _EARLY_MS:
        raise BenchError(f"a job ran {early_ms:.0f} ms before it was due")
    return {"delayed-e2e": bench.jobs / ((bench.record.last_start_ns(bench.jobs) - due_ns) / 1e9)}


SCENARIOS = [
    Scenario(
        name="delayed-e2e",
        what="delayed jobs falling due at once, until all ran",
        jobs=50_000,
        quick_jobs=None,
        measure=_fall_due,
        work=Work(delays=True),
    )
]
