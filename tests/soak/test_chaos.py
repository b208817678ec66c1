"""A long run in which everything breaks again and again: nothing is lost, and nothing grows."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from typing import TYPE_CHECKING

import pytest
import redis.asyncio

from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import decode_job
from chasqui_engine.runtime.clock import monotonic
from tests.servers import KINDS, ServerProcess
from tests.soak.chaos import HARMLESS, Adder, Chaos, fate
from tests.support import measure
from tests.support.connections.proxy import Proxy
from tests.support.faults.fleet import EMPTY, Fleet, Ledger, left_over, tasks_file
from tests.support.faults.outages import ALWAYS
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

MINUTES = float(os.environ.get("CHASQUI_SOAK_MINUTES", "30")) / len(KINDS)
"""Each kind of server gets its share."""
QUEUE, WORKERS, CONCURRENCY = "chaos", 3, 20
JOBS_PER_S = int(os.environ.get("CHASQUI_SOAK_RATE", "400"))
SAY_EVERY_S = 120.0
# A file that is rewritten often is read soon, and a server that is killed every minute reads it often.
DURABLE = (*ALWAYS, "--auto-aof-rewrite-min-size", "4mb")


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 600)
async def test_everything_breaks_again_and_again(server_kind: str, tmp_path: Path) -> None:
    if server_kind == "given":
        pytest.skip("breaks its server, so it needs one of its own")
    seed = random.randrange(2**32)
    print(f"\nseed {seed}; {measure.machine()}")
    ledger, stop = Ledger(tmp_path / "ledger"), asyncio.Event()
    settings = {"work_ms": 50, "concurrency": CONCURRENCY, "claim_min_idle_ms": 1500, "max_attempts": 1000}
    settings |= {"shutdown_deadline_secs": 2}
    with ServerProcess(server_kind, DURABLE) as server:
        async with Proxy(server.url) as proxy:
            with (
                Fleet(proxy.url, QUEUE, ledger, **settings) as fleet,
                Fleet(proxy.url, QUEUE, ledger, **settings) as survivors,
            ):
                survivor = survivors.start()
                chaos = Chaos(server, proxy, QUEUE, fleet, WORKERS, seed)
                chaos.full_strength()
                adder = Adder(proxy.url, QUEUE, ahead=20 * JOBS_PER_S, per_s=JOBS_PER_S)
                adding = asyncio.create_task(adder.run(stop, lambda: len(ledger.ends())))
                # One that finds no server when it starts says so and ends: that is for another test.
                await until(lambda: ledger.begun_by(survivor.pid), timeout_s=60)
                breaking = asyncio.create_task(chaos.run(stop))
                first, last = await _watch(survivor.pid, ledger, MINUTES * 60, adding, breaking)
                stop.set()
                await asyncio.gather(adding, breaking)
                chaos.full_strength()
                async with redis.asyncio.Redis.from_url(server.url) as raw:
                    await until(lambda: _is_drained(raw), timeout_s=180, every_s=0.2)
                    dead = await _dead(raw)
    numbers = range(adder.accepted)
    lost = [n for n in numbers if fate(n) != "die" and not ledger.ends()[n]]
    not_buried = {n for n in numbers if fate(n) == "die"} ^ dead
    again, faults = ledger.again(), chaos.done.total()
    print(f"{server_kind}: {MINUTES:g} min, {adder.accepted} jobs, {faults} faults {dict(chaos.done)}")
    print(f"  {len(lost)} lost, {again['running']} were running and begun again, {again['ended']} had ended and were")
    print(f"  {len(dead)} dead as they should be; {adder.retried} adds sent again")
    print(f"  the worker that lived through it: {first} at the start, {last} at the end")
    assert lost == []
    assert not_buried == set()
    deadly = sum(count for kind, count in chaos.done.items() if kind not in HARMLESS)
    assert again.total() <= deadly * (WORKERS + 1) * CONCURRENCY
    assert last.rss_mib < first.rss_mib + 40
    assert last.threads <= first.threads + 2
    assert last.sockets <= first.sockets + 3
    assert last.tasks <= first.tasks + 2 * CONCURRENCY


async def _is_drained(raw: redis.asyncio.Redis) -> bool:
    left = await left_over(raw, QUEUE)
    return left == {**EMPTY, "dead": left["dead"]}


async def _dead(raw: redis.asyncio.Redis) -> set[int]:
    return {decode_job(fields[b"d"], "").payload[0] for _, fields in await raw.xrange(QueueKeys(QUEUE).dlq)}


class Load:
    """What a worker process holds."""

    def __init__(self, pid: int, tasks: int) -> None:
        self.rss_mib = measure.rss_mib(pid)
        self.threads = measure.threads(pid)
        self.sockets = measure.sockets(pid)
        self.tasks = tasks

    def __repr__(self) -> str:
        return f"{self.rss_mib:.0f} MiB, {self.threads} threads, {self.sockets} sockets, {self.tasks} tasks"


async def _load(pid: int, ledger: Ledger) -> Load:
    answer = tasks_file(ledger.path, pid)
    answer.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    text = await until(lambda: answer.exists() and answer.read_text(), timeout_s=30)
    return Load(pid, int(text))


async def _watch(pid: int, ledger: Ledger, seconds: float, *tasks: asyncio.Task[None]) -> tuple[Load, Load]:
    """The load after it has warmed up, and at the end; in between, a line every now and then."""
    began = monotonic()
    await asyncio.wait(tasks, timeout=min(20.0, seconds / 4), return_when=asyncio.FIRST_COMPLETED)
    first = last = await _load(pid, ledger)
    while (left_s := seconds - (monotonic() - began)) > 0 and not any(task.done() for task in tasks):
        await asyncio.wait(tasks, timeout=min(left_s, SAY_EVERY_S), return_when=asyncio.FIRST_COMPLETED)
        last = await _load(pid, ledger)
        print(f"  {(monotonic() - began) / 60:.0f} min: {len(ledger.ends())} done; {last}", flush=True)
    for task in tasks:
        if task.done():
            task.result()
    return first, last
