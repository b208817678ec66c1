"""Putting jobs on a queue, from one process and one task."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from benchmarks.bench import Bench
from benchmarks.scenarios.scenario import Scenario

_DELAY_S = 3600
_Measure = Callable[[Bench], Awaitable[dict[str, float]]]
_AddBatch = Callable[[Bench, range], Awaitable[object]]


async def _connect(bench: Bench) -> None:
    """A first job opens the connection and loads scripts; then it goes away again."""
    await bench.peer.add(bench.jobs)
    bench.server.command("FLUSHDB SYNC")


async def _one_by_one(bench: Bench) -> dict[str, float]:
    await _connect(bench)
    add = bench.peer.add
    began = time.perf_counter()
    for n in bench.numbers:
        await add(n)
    took_s = time.perf_counter() - began
    bench.check_waiting()
    return {"add": bench.jobs / took_s}


def _in_bulks(name: str, size: int, add_batch: _AddBatch) -> _Measure:
    async def measure(bench: Bench) -> dict[str, float]:
        await _connect(bench)
        began = time.perf_counter()
        for batch in bench.batches(size):
            await add_batch(bench, batch)
        took_s = time.perf_counter() - began
        bench.check_waiting()
        return {name: bench.jobs / took_s}

    return measure


def _now(bench: Bench, batch: range) -> Awaitable[object]:
    return bench.peer.add_bulk(batch)


def _later(bench: Bench, batch: range) -> Awaitable[object]:
    return bench.peer.add_delayed_bulk(batch, int(time.time()) + _DELAY_S)


def _with_options(bench: Bench, batch: range) -> Awaitable[object]:
    return bench.peer.add_with_options_bulk(batch, int(time.time()) + _DELAY_S)


def _bulk(name: str, what: str, size: int, add_batch: _AddBatch, *, jobs: int, quick_jobs: int | None) -> Scenario:
    return Scenario(name=name, what=what, jobs=jobs, quick_jobs=quick_jobs, measure=_in_bulks(name, size, add_batch))


SCENARIOS = [
    Scenario(name="add", what="one at a time, awaited", jobs=5_000, quick_jobs=2_000, measure=_one_by_one),
    _bulk("add-bulk-50", "bulks of 50 tiny jobs", 50, _now, jobs=100_000, quick_jobs=30_000),
    _bulk("add-bulk-1000", "bulks of 1,000 tiny jobs", 1000, _now, jobs=100_000, quick_jobs=50_000),
    _bulk("add-delayed-bulk", "bulks of 1,000, delayed", 1000, _later, jobs=50_000, quick_jobs=None),
    _bulk(
        "add-with-options-bulk",
        "bulks of 1,000, each job with an id, a delay and its own retries",
        1000,
        _with_options,
        jobs=50_000,
        quick_jobs=2_000,
    ),
]
