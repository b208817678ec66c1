"""Takes the pictures of the dashboard that the docs show: `python -m tests.dashboard.pictures`."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from playwright.sync_api import sync_playwright

from chasqui_engine import RepeatPattern, SyncQueue
from tests.dashboard.browser.conftest import ARGS
from tests.servers import VALKEY, ServerProcess
from tests.support.dashboards import AnyGuard, Served, app_for
from tests.support.processes import Process
from tests.support.source import ROOT
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOUR_S, DAY_S = 3600, 86_400
WORK = """
import asyncio, random
from chasqui_engine import UnrecoverableError, handler

@handler("welcome")
async def welcome(job):
    await asyncio.sleep(random.uniform(0.02, 0.2))
    if job.payload["to"].endswith("7"):
        raise ValueError("mailbox is full")
    return {"sent": job.payload["to"]}

@handler("invoice")
async def invoice(job):
    raise UnrecoverableError(f"customer {job.payload['customer']} has no address")

@handler("export")
async def export(job):
    for part in range(100):
        await job.update_progress(part)
        await asyncio.sleep(0.3)
"""


def furnish(queue: SyncQueue) -> None:
    """Something of everything."""
    queue.add_bulk([{"name": "export", "data": {"year": 2020 + n}} for n in range(3)])
    for n in range(5):
        queue.add("invoice", {"customer": 4000 + n})
    queue.add_bulk([{"name": "welcome", "data": {"to": f"user-{n}"}} for n in range(400)])
    for n in range(3):
        queue.add("welcome", {"to": "ada"}, delay_ms=(n + 1) * 600_000)
    queue.add("report", {}, repeat=RepeatPattern.cron("30 9 * * 1-5", "Europe/Berlin"))


def remember(client: redis.Redis, queue: SyncQueue) -> None:
    """Counts of four weeks, as workers leave them."""
    now, pick = int(time.time()), random.Random(7)
    for age in range(1, 28 * 24):
        at = now - age * HOUR_S
        busy = 1.0 if 7 <= at % DAY_S // HOUR_S <= 18 else 0.25
        number, hour = int(busy * pick.uniform(3000, 5000)), at % DAY_S // HOUR_S
        counts = {"c:welcome": number, "c:export": number // 40, "f:welcome": number // 50, "d:invoice": number // 900}
        counts |= {"t:34": number, "t:37": number // 8, "t:42": number // 60}
        fields = {f"{hour}:{name}": str(count) for name, count in counts.items()}
        fields[f"{hour}:depth"] = f"{int(busy * pick.uniform(0, 400))},{int(busy * 16)},40"
        client.hset(f"{{chasqui:{queue.name}}}:tally:hour:{at // DAY_S}", mapping=fields)


def take(page: Page, url: str, folder: Path) -> None:
    """All of them."""

    def shoot(name: str, path: str, press: str | None = None) -> None:
        page.goto(url + path)
        page.wait_for_selector("main[data-ready]")
        if press is not None:
            page.get_by_role("button", name=press, exact=True).first.click()
        page.wait_for_timeout(2000)
        page.screenshot(path=folder / f"dashboard-{name}.png")

    shoot("queues", "")
    shoot("queue", "queues/main/emails", "1 week")
    shoot("dead-letters", "queues/main/emails?tab=dead")
    shoot("dead-letter", "queues/main/emails?tab=dead", "Details")


def main(folder: Path) -> None:
    """Starts a server, a worker, a dashboard and a browser."""
    with (
        ServerProcess(VALKEY) as server,
        SyncQueue("emails", redis_url=server.url) as queue,
        SyncQueue("reports", redis_url=server.url) as reports,
        redis.Redis.from_url(server.url) as client,
        tempfile.TemporaryDirectory() as work,
    ):
        (Path(work) / "chores.py").write_text(WORK)
        furnish(queue)
        remember(client, queue)
        reports.add("monthly", {})
        with (
            Process(server.url, Path(work), "worker", "chores", "-q", "emails", "--store-results", "--json"),
            Served(app_for(server.url, AnyGuard())) as served,
            sync_playwright() as playwright,
        ):
            wait_for(lambda: queue.counts().dead and queue.counts().active, "the worker to be at it")
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            take(page, served.url, folder)
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/img")
