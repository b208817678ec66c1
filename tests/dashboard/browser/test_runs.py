"""Jobs that run, jobs between two runs, and the timeline of a job with much in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.conftest import PATIENCE_MS
from tests.dashboard.browser.test_views import no_wider_than_the_screen, page_of
from tests.support.dashboards import AnyGuard
from tests.support.processes import Process
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from chasqui_engine import SyncQueue
    from tests.dashboard.browser.test_views import OpenTab

WORK = """
import asyncio
from chasqui_engine import handler

@handler("fails")
async def fails(job):
    raise ValueError("mailbox is full")

@handler("copies")
async def copies(job):
    await job.update_progress(job.payload)
    await asyncio.sleep(3600)
"""
BOTH = pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["large", "small and dark"])

expect.set_options(timeout=PATIENCE_MS)
pytestmark = pytest.mark.timeout(180)


@BOTH
def test_jobs_that_run_and_jobs_between_two_runs(
    open_tab: OpenTab, queue: SyncQueue, valkey_url: str, tmp_path: Path, width: int, dark: bool
) -> None:
    (tmp_path / "chores.py").write_text(WORK)
    part, words = queue.add("copies", 42.5, attempts=5), queue.add("copies", {"file": "b.txt"})
    again = queue.add("fails", 1, attempts=7, backoff=600_000)
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    with Process(valkey_url, tmp_path, "worker", "chores", "-q", queue.name, "--json") as worker:
        wait_for(lambda: queue.counts().delayed and all(queue.get_job(one.id).progress for one in (part, words)), "all")
        page = tab.open(page_of(queue, "active"))
        row = page.locator("tbody tr", has_text=part.id)
        expect(row.locator("progress")).to_have_attribute("value", "42.5")
        expect(row).to_contain_text("42.5 %")
        expect(row).to_contain_text("1 of 5")
        expect(row.locator("[data-since]")).to_have_text(re.compile(r"\d"))
        expect(page.locator("tbody tr", has_text=words.id)).to_contain_text('{"file": "b.txt"}')
        assert no_wider_than_the_screen(page)

        page = tab.open(f"{page_of(queue)}/jobs/{part.id}")
        expect(page.locator("progress")).to_have_attribute("value", "42.5")
        expect(page.locator("section.card", has_text="About")).to_contain_text("Runs for")
        assert no_wider_than_the_screen(page)

        page = tab.open(page_of(queue, "delayed"))
        row = page.locator("tbody tr", has_text=again.id)
        expect(row).to_contain_text("ValueError: mailbox is full")
        expect(row).to_contain_text("1 of 7")
        expect(row).to_contain_text("in 9 m")
        assert no_wider_than_the_screen(page)
        worker.kill()


@BOTH
def test_a_timeline_folds_progress_and_repeated_runs(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, width: int, dark: bool
) -> None:
    def emit(kind: str, **fields: Any) -> None:
        client.xadd(f"{{chasqui:{queue.name}}}:events", {"e": kind, "id": "busy", "ts": "1", **fields})

    for run in range(1, 31):
        emit("active", attempt=run)
        emit("failed", attempt=run, reason=f"no. {run}")
        emit("retry-scheduled", attempt=run + 1, backoff_ms=1000)
    emit("active", attempt=31)
    for n in range(200):
        emit("progress", progress=n / 2)
    page = open_tab(AnyGuard(), width=width, dark=dark).open(f"{page_of(queue)}/jobs/busy")
    assert no_wider_than_the_screen(page)
    timeline = page.locator(".timeline").first
    folds = timeline.locator("summary")
    expect(folds).to_have_count(2)
    expect(folds.first).to_have_text("28 more runs")
    expect(folds.last).to_have_text("200 times progress up to 99.5")
    for text in ("no. 1", "no. 30"):
        expect(timeline.get_by_text(text, exact=True)).to_be_visible()
    expect(timeline.get_by_text("no. 15", exact=True)).to_be_hidden()
    folds.first.click()
    expect(timeline.get_by_text("no. 15", exact=True)).to_be_visible()
    emit("progress", progress=100)  # the page is drawn again
    expect(folds.last).to_have_text("201 times progress up to 100")
    expect(timeline.get_by_text("no. 15", exact=True)).to_be_visible()
