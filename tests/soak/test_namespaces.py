"""A worker on a network of its own, whose link goes down: packets vanish, and nobody says goodbye."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import redis.asyncio

from chasqui_engine.runtime.clock import monotonic
from tests.servers import ServerProcess
from tests.support.faults.fleet import EMPTY, Fleet, Ledger, left_over
from tests.support.faults.kills import add_numbered
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE, THERE = "10.213.77.1", "10.213.77.2"
"""Of a pair of interfaces that leads nowhere else."""
QUEUE, JOBS, CONCURRENCY = "namespaces", 3000, 20


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def namespace() -> Iterator[str]:
    """A network with one way out, to this machine; skips the test where none can be made."""
    name = f"chasqui-{os.getpid()}"
    here, there = f"cq{os.getpid()}a", f"cq{os.getpid()}b"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as err:
        pytest.skip(f"no network namespaces here: {err}")
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", f"{HERE}/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{THERE}/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        yield name
    finally:
        # The pair goes with the namespace that holds one end of it.
        ip("netns", "del", name)


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("down_s", [2, 8])
async def test_a_link_that_goes_down_and_comes_up(server_kind: str, tmp_path: Path, down_s: int) -> None:
    if server_kind == "given":
        pytest.skip("the server has to be reached from another network")
    ledger = Ledger(tmp_path / "ledger")
    with (
        namespace() as name,
        ServerProcess(server_kind, ("--bind", "127.0.0.1", HERE, "--protected-mode", "no")) as server,
    ):
        await add_numbered(server.url, QUEUE, JOBS)
        url, link = server.url.replace("127.0.0.1", HERE), f"cq{os.getpid()}a"
        settings = {"work_ms": 50, "concurrency": CONCURRENCY, "claim_min_idle_ms": 30_000}
        with Fleet(url, QUEUE, ledger, before=("ip", "netns", "exec", name), **settings) as fleet:
            fleet.start()
            await until(lambda: len(ledger.ends()) > 200, timeout_s=60)
            ip("link", "set", link, "down")
            await asyncio.sleep(down_s)
            done = len(ledger.ends())
            ip("link", "set", link, "up")
            back = monotonic()
            await until(lambda: len(ledger.ends()) > done, timeout_s=60)
            back_s = monotonic() - back
            await until(lambda: len(ledger.ends()) == JOBS, timeout_s=120)
            async with redis.asyncio.Redis.from_url(server.url) as raw:
                await until(lambda: _is_empty(raw), timeout_s=60)
    again = dict(ledger.again())
    print(f"{server_kind}: link down {down_s} s: {JOBS} jobs, 0 lost, again {again}, at work in {back_s:.1f} s")
    assert again == {"running": 0, "ended": 0}


async def _is_empty(raw: redis.asyncio.Redis) -> bool:
    return await left_over(raw, QUEUE) == EMPTY
