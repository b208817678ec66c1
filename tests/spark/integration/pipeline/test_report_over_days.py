"""The report of some days: what each had, and how the page looks in a browser, wide, narrow, light and dark."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.run import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from tests.spark.integration.conftest import Queues

DAYS = [f"2026-11-{day:02d}" for day in range(1, 18)]
FIRST_MS = 1_793_491_200_000  # the first of November 2026, UTC
DAY_MS = 86_400_000
NAMES = ("send", "resize-a-picture-whose-name-is-long", "")


def run_jobs(client: redis.Redis, key: str) -> Counter[tuple[str, str, str]]:
    """Events of jobs on each of the days; counts them by day, name and how they ended."""
    rng = random.Random(4)
    ends: Counter[tuple[str, str, str]] = Counter()
    pipe = client.pipeline(transaction=False)
    for n, day in enumerate(DAYS):
        for number in range(rng.randrange(5, 20)):
            name = rng.choice(NAMES if n else NAMES[:1])
            at = FIRST_MS + n * DAY_MS + number * 1000
            end = rng.choice(["completed", "completed", "failed"])
            about = {"id": f"{day}-{number}", "n": name, "attempt": 1}
            pipe.xadd(key, {"e": "active", "ts": at, **about, "enqueued_at_ms": at - 2990}, id=f"{at}-0")
            pipe.xadd(key, {"e": end, "ts": at + 20, **about, "duration_us": 20_000}, id=f"{at + 20}-0")
            ends[day, name, end] += 1
    pipe.execute()
    return ends


def check_page(page_file: Path, shots: Path) -> None:
    """In a browser: nothing is wider than the screen but tables, which scroll by themselves."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("the report is NOT TESTED in a browser: chromium is not on this machine")
    from playwright.sync_api import sync_playwright

    def look(browser: Any, width: int, scheme: Any) -> str:
        tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab.goto(page_file.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tables = "[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth, e.clientWidth])"
        wider = [inside > outside for inside, outside in tab.evaluate(tables)]
        assert any(wider) is (width == 400), "the days are wider than a phone"
        tab.screenshot(path=shots / f"{width}-{scheme}.png", full_page=True)
        colour: str = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        tab.close()
        return colour

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        assert len({look(browser, width, scheme) for width in (1200, 400) for scheme in ("light", "dark")}) == 2
        browser.close()


def test_the_report_shows_queues_and_names_day_by_day(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    ends = run_jobs(client, q.key("events"))
    config = PipelineConfig(
        queues=(q.queue,), out=f"file://{tmp_path}/out", url=q.url, entities=("events",), window_s=3600
    )
    work = Pipeline(q.spark, config)
    summary = work.run()
    assert summary is not None
    found = summary["queues"][q.queue]
    assert [day["day"] for day in found["days"]] == DAYS[-14:], "the latest fortnight"
    for at, day in enumerate(found["days"]):
        for end in ("completed", "failed"):
            assert day[end] == sum(count for (of, _, how), count in ends.items() if (of, how) == (day["day"], end))
            by_name = {row["name"]: row["days"][at] for row in found["names_by_day"]}
            assert set(by_name) == set(NAMES)
            for name, cell in by_name.items():
                assert (cell or {end: 0})[end] == ends[day["day"], name, end]
        assert day["latency_p95_ms"] == 2990
        assert day["handler_p95_ms"] == 20
    page = tmp_path / "out" / "report" / "index.html"
    assert work.page_link() == page.as_uri()
    check_page(page, tmp_path)
