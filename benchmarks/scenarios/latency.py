"""From the call that adds a job to an idle queue until its handler starts."""

from __future__ import annotations

import asyncio
import functools
import time

from benchmarks.bench import Bench, until
from benchmarks.scenarios.scenario import Scenario

_IDLE_S = 0.005


async def _one_at_a_time(bench: Bench) -> dict[str, float]:
    waits_ms = []
    async with bench.warm_workers():
        for n in bench.numbers:
            await asyncio.sleep(_IDLE_S)
            began_ns = time.monotonic_ns()
            await bench.peer.add(n)
            # The handler notes its own start: how often this looks does not change the figure.
            await until(functools.partial(bench.record.started_ns, n), every_s=0.001)
            waits_ms.append((bench.record.started_ns(n) - began_ns) / 1e6)
    waits_ms.sort()
    return {"latency p50": waits_ms[len(waits_ms) // 2], "latency p99": waits_ms[len(waits_ms) * 99 // 100]}


SCENARIOS = [
    Scenario(
        name="latency",
        what="add to an idle queue until the handler starts",
        jobs=1_000,
        quick_jobs=200,
        measure=_one_at_a_time,
        units={"latency p50": "ms", "latency p99": "ms"},
    )
]
