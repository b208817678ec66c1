"""Megabytes of hostile payloads: a page is made at the cost of what it shows, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import time

import httpx
import msgpack
import pytest
import redis

from tests.support.dashboards import AnyGuard, Served, app_for

JOBS = 60
HOSTILE = b"\xdd" + (1_000_000).to_bytes(4, "big") + b"\x90" * 1_000_000
MOST_CPU_S = 3.0
"""For a page; decoding and converting all of them took more than a minute."""
MOST_HELD_S = 0.5
"""Of the loop, at a time: it is some hundredths on a free machine, and converting all of them was a minute."""


@pytest.fixture(scope="module")
def hostile_queue(valkey_url: str) -> str:
    name = "hostile-megabytes"
    prefix = f"{{chasqui:{name}}}"
    with redis.Redis.from_url(valkey_url) as client:
        _fill(client, prefix)
    return name


def _fill(client: redis.Redis, prefix: str) -> None:
    times = bytes(msgpack.packb(1_700_000_000_000)) + b"\x00"
    for n in range(JOBS):
        head = b"\x94" + bytes(msgpack.packb(f"job-{n}"))
        envelope = head + (HOSTILE if n % 2 else bytes(msgpack.packb(HOSTILE))) + times
        client.xadd(f"{prefix}:stream", {"d": envelope, "n": "x"})
        facts = {"source_id": "1-1", "reason": "retries_exhausted", "detail": "ValueError"}
        client.xadd(f"{prefix}:dlq", {"d": envelope, "n": "x", **facts})
        client.zadd(f"{prefix}:delayed", {(1).to_bytes(4, "little") + b"x" + envelope: 4_000_000_000_000 + n})
    client.xgroup_create(f"{prefix}:stream", "default", "0")


@pytest.mark.parametrize("path", ["waiting?", "delayed?", "dead?", "dead?reason=retries_exhausted&", "job?id=job-3&"])
def test_a_page_costs_what_it_shows(valkey_url: str, hostile_queue: str, path: str) -> None:
    with Served(app_for(valkey_url, AnyGuard())) as served, httpx.Client(base_url=served.url, timeout=60) as browser:
        browser.get("api/me")
        held: list[float] = []
        served.call_soon(lambda: _watch(held))
        began = time.process_time()
        answer = browser.get(f"api/queue/{path}connection=main&queue={hostile_queue}")
        spent = time.process_time() - began
    assert answer.status_code == 200
    assert "[]" in answer.text
    shown = answer.json().get("rows", range(50))
    # A page of dead letters ends at so many bytes, and the next one goes on from there.
    assert len(shown) == 50 or ("dead" in path and len(shown) >= 8 and answer.json()["next"])
    assert spent < MOST_CPU_S
    assert max(held) < MOST_HELD_S


def _watch(held: list[float]) -> None:
    """How much the loop's thread computes between two turns; what others do on the machine is not in it."""
    before = time.thread_time()

    def woken() -> None:
        held.append(time.thread_time() - before)
        _watch(held)

    asyncio.get_running_loop().call_soon(woken)
