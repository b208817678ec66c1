"""A long run in which everything breaks again and again: nothing is lost, and nothing grows."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING

import pytest
import redis.asyncio

from chasqui_engine.clock import monotonic
from tests.acceptance.harness import EMPTY, Fleet, Ledger, left_over
from tests.integration.helpers import until
from tests.servers import KINDS, ServerProcess
from tests.soak import measure
from tests.soak.chaos import Adder, Chaos

if TYPE_CHECKING:
    from pathlib import Path

MINUTES = float(os.environ.get("CHASQUI_SOAK_MINUTES", "30")) / len(KINDS)
"""Each kind of server gets its share."""
QUEUE, WORKERS, CONCURRENCY = "chaos", 3, 20
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class Tail:
    """Follows the ledger without reading all of it again."""

    def __init__(self, ledger: Ledger) -> None:
        self._file = ledger.path.open()
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self._rest = ""

    def finished(self) -> int:
        """How many jobs have run to their end."""
        text = self._rest + self._file.read()
        *lines, self._rest = text.split("\n")
        for line in lines:
            what, number, _pid = line.split()
            counts = self.starts if what == "start" else self.ends
            counts[int(number)] = counts.get(int(number), 0) + 1
        return len(self.ends)

    def close(self) -> None:
        self._file.close()


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 600)
async def test_everything_breaks_again_and_again(server_kind: str, tmp_path: Path) -> None:
    if server_kind == "given":
        pytest.skip("breaks its server, so it needs one of its own")
    seed = random.randrange(2**32)
    print(f"\nseed {seed}; {measure.machine()}")
    ledger = Ledger(tmp_path / "ledger")
    tail, stop, settings = Tail(ledger), asyncio.Event(), {"work_ms": 5, "concurrency": CONCURRENCY}
    settings |= {"claim_min_idle_ms": 1500, "max_attempts": 1000, "shutdown_deadline_secs": 2}
    with ServerProcess(server_kind, DURABLE) as server, Fleet(server.url, QUEUE, ledger, **settings) as fleet:
        survivor = Fleet(server.url, QUEUE, ledger, **settings)
        with survivor:
            old = survivor.start()
            chaos = Chaos(server, fleet, WORKERS, seed)
            chaos.full_strength()
            adder = Adder(server.url, QUEUE, ahead=2000)
            adding = asyncio.create_task(adder.run(stop, tail.finished))
            breaking = asyncio.create_task(chaos.run(stop))
            first, last = await _watch(old.pid, MINUTES * 60, adding, breaking)
            stop.set()
            await asyncio.gather(adding, breaking)
            chaos.full_strength()
            await until(lambda: tail.finished() >= adder.accepted, timeout_s=120, every_s=0.2)
            async with redis.asyncio.Redis.from_url(server.url) as raw:
                await until(lambda: _is_empty(raw), timeout_s=60)
                connections = len(await raw.client_list())
    tail.close()
    lost = [n for n in range(adder.accepted) if n not in tail.ends]
    again = sum(tail.starts.values()) - adder.accepted
    faults = chaos.done.total()
    print(f"{server_kind}: {MINUTES:g} min, {adder.accepted} jobs, {faults} faults {dict(chaos.done)}")
    print(f"  {len(lost)} lost, {again} begun again; {adder.retried} adds sent again, {connections} connections left")
    print(f"  the worker that lived through it: {first} at the start, {last} at the end")
    assert lost == []
    deadly = sum(count for kind, count in chaos.done.items() if kind not in ("scripts forgotten", "server frozen"))
    assert again <= deadly * (WORKERS + 1) * CONCURRENCY
    assert last.rss_mib < first.rss_mib + 40
    assert last.threads <= first.threads + 2
    assert last.sockets <= first.sockets + 3


async def _is_empty(raw: redis.asyncio.Redis) -> bool:
    return await left_over(raw, QUEUE) == EMPTY


class Load:
    """What a worker process holds."""

    def __init__(self, pid: int) -> None:
        self.rss_mib = measure.rss_mib(pid)
        self.threads = measure.threads(pid)
        self.sockets = measure.sockets(pid)

    def __repr__(self) -> str:
        return f"{self.rss_mib:.0f} MiB, {self.threads} threads, {self.sockets} sockets"


async def _watch(pid: int, seconds: float, *tasks: asyncio.Task[None]) -> tuple[Load, Load]:
    """The load after it has warmed up, and at the end."""
    began = monotonic()
    await asyncio.wait(tasks, timeout=min(20.0, seconds / 4), return_when=asyncio.FIRST_COMPLETED)
    first = Load(pid)
    await asyncio.wait(tasks, timeout=seconds - (monotonic() - began), return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
    return first, Load(pid)
