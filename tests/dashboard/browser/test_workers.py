"""Who runs the jobs, and what they died of, as the page shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.conftest import PATIENCE_MS
from tests.dashboard.browser.test_views import page_of
from tests.support.dashboards import AnyGuard
from tests.support.processes import Process
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from chasqui_engine import SyncQueue
    from tests.dashboard.browser.test_views import OpenTab

expect.set_options(timeout=PATIENCE_MS)
pytestmark = pytest.mark.timeout(180)

CHORES = """
import asyncio
from chasqui_engine import UnrecoverableError, handler

@handler("dig")
async def dig(job):
    job.log("<b>one metre down</b>")
    raise UnrecoverableError("bedrock")

@handler("wait")
async def wait(job):
    await asyncio.sleep(60)
"""


def test_a_worker_and_the_traceback_of_a_death(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    (tmp_path / "chores.py").write_text(CHORES)
    words = ("worker", "chores", "-q", queue.name, "--name", "digger", "-c", "2", "--json")
    with Process(valkey_url, tmp_path, *words) as worker:
        queue.add("dig", {"metres": 1}, job_id="deep")
        queue.add("wait", None)
        wait_for(lambda: queue.counts().dead == 1)
        tab = open_tab(AnyGuard())
        page = tab.open(page_of(queue))
        row = page.locator("tbody tr").first
        expect(row).to_contain_text("digger-")
        expect(row.locator(".active")).to_have_text("1 of 2")
        expect(row.locator(".heard")).to_have_text("alive")
        expect(row).to_contain_text("dig, wait")
        page = tab.open(page_of(queue, "dead"))
        page.get_by_role("button", name="Details").click()
        expect(page.locator("pre.traceback")).to_contain_text("in dig")
        page.get_by_role("link", name="deep").click()
        expect(page.locator("pre.traceback")).to_contain_text("UnrecoverableError: bedrock")
        expect(page.locator(".step.bad").first).to_contain_text("UnrecoverableError: bedrock")
        expect(page.locator("pre.log")).to_have_text("<b>one metre down</b>")
        worker.kill()
    key = f"{{chasqui:{queue.name}}}:workers"
    [(name, entry)] = client.hgetall(key).items()
    seen_ms, _, facts = entry.partition(b" ")
    client.hset(key, name, b"%d %s" % (int(seen_ms) - 120_000, facts))
    page = tab.open(page_of(queue))
    expect(page.locator("tbody tr .heard").first).to_contain_text("died: last seen 2 m")
