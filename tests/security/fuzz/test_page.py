"""The page in a real browser, on a queue that anybody wrote into: nothing of it runs, and nothing breaks the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright")

from tests.dashboard.browser.conftest import browser, open_tab
from tests.dashboard.browser.test_hostile import clean
from tests.support.dashboards import AnyGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from tests.dashboard.browser.conftest import Tab
    from tests.support.hostile.filling import Filled

__all__ = ["browser", "open_tab"]

TABS = ("waiting", "active", "delayed", "repeating", "dead")
MOST_JOBS = 5
PAGE_SIZE = 500
LINK = "async (place) => (await import(new URL('static/api.js', document.baseURI))).pageOf(...place)"
"""The address that the page itself links to."""


@pytest.mark.timeout(180)
def test_what_others_wrote_is_text(open_tab: Callable[..., Tab], client: redis.Redis, filled: Filled) -> None:
    tab = open_tab(AnyGuard(), page_size=PAGE_SIZE)
    page = tab.open()
    page.get_by_role("link", name=filled.queue).wait_for()
    assert clean(page)
    tab.open(f"queues/main/{filled.queue}")
    assert clean(page)
    shown = {"delayed": "delayed", "repeating": "repeat", "dead": "dlq"}
    for name in TABS:
        page.locator(f'[data-tab="{name}"]').click()
        page.locator("main[data-ready]").wait_for()
        place = shown.get(name, "")
        # Of more than a page, the good ones may be on another; the newest dead letters come first.
        if filled.counts[place] <= PAGE_SIZE:
            for good in filled.good.get(place, [])[-1:]:
                page.locator("tbody").get_by_text(good).first.wait_for()
        assert clean(page), name
    for button in page.get_by_role("button", name="Details").all()[:MOST_JOBS]:
        button.click()
        assert clean(page)
    for job_id in [filled.good["dlq"][0], *told(client, filled.queue)[:MOST_JOBS]]:
        tab.open(page.evaluate(LINK, ["main", filled.queue, job_id]))
        assert clean(page), job_id


def told(client: redis.Redis, queue: str) -> list[str]:
    """Ids of which hostile events tell."""
    entries: Any = client.xrange(f"{{chasqui:{queue}}}:events")
    ids = {fields.get(b"id", b"").decode(errors="ignore") for _, fields in entries if b"<" in fields.get(b"id", b"")}
    return sorted(job_id for job_id in ids if len(job_id) < 1000)
