"""The list of completed jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.conftest import PATIENCE_MS
from tests.dashboard.browser.test_views import CHORES, no_wider_than_the_screen, page_of
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


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["large", "small and dark"])
def test_completed_jobs_by_name_and_time_with_their_results(
    open_tab: OpenTab,
    queue: SyncQueue,
    client: redis.Redis,
    valkey_url: str,
    tmp_path: Path,
    width: int,
    dark: bool,
) -> None:
    (tmp_path / "chores.py").write_text(CHORES)
    done = queue.add("works", {"n": 1})
    with Process(valkey_url, tmp_path, "worker", "chores", "-q", queue.name, "--store-results", "--json"):
        wait_for(lambda: queue.get_result(done.id), "the job has ended")
    for n in range(60):
        event = {"e": "completed", "id": f"e{n}", "n": f"name-{n % 30}", "ts": "1", "attempt": "1"}
        client.xadd(f"{{chasqui:{queue.name}}}:events", event)
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    page = tab.open(page_of(queue, "completed"))
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    assert no_wider_than_the_screen(page)
    page.get_by_role("button", name="Next page").click()
    expect(rows).to_have_count(11)
    expect(rows.last).to_contain_text('{"sent": "ada"}')
    expect(rows.first).to_contain_text("not kept")

    name = page.get_by_label("Name", exact=True)
    name.fill("name-7")
    name.press("Enter")
    expect(rows).to_have_count(2)
    name.fill("nothing")
    name.press("Enter")
    expect(page.locator(".below")).to_contain_text("No job has this name")
    name.fill("")
    page.get_by_label("To").fill("2020-05-06T07:08")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".below")).to_contain_text("No job matches")
    page.get_by_label("To").fill("")
    page.get_by_label("From").fill("2020-05-06T07:08")
    name.fill("works")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(1)
    rows.get_by_role("link").click()
    expect(page.locator("#state")).to_have_text("completed")
    page.locator('[data-act="remove"]').click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".toast")).to_have_text("The job was removed.")
    assert queue.get_result(done.id) is None


def test_a_queue_without_completed_jobs_says_so(open_tab: OpenTab, queue: SyncQueue) -> None:
    page = open_tab(AnyGuard()).open(page_of(queue, "completed"))
    expect(page.locator("#view")).to_contain_text("No completed jobs")
