"""The field at the top of every page leads to a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from chasqui_engine import SyncQueue
from tests.dashboard.browser.test_views import no_wider_than_the_screen, page_of
from tests.support.dashboards import AnyGuard

if TYPE_CHECKING:
    from tests.dashboard.browser.test_views import OpenTab

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["large and light", "small and dark"])
def test_from_any_page_to_a_job(open_tab: OpenTab, queue: SyncQueue, valkey_url: str, width: int, dark: bool) -> None:
    job = queue.add("welcome", {"to": "ada"})
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    page = tab.open()
    assert no_wider_than_the_screen(page)
    field = page.get_by_label("Find a job by id")
    field.fill(f" {job.id} ")
    field.press("Enter")
    expect(page.locator("h1")).to_have_text(job.id)
    expect(page.locator("#state")).to_have_text("waiting")
    assert no_wider_than_the_screen(page)

    field = page.get_by_label("Find a job by id")
    field.fill("no <b>such</b> job")
    field.press("Enter")
    expect(page.locator(".toast")).to_contain_text("No queue knows a job “no <b>such</b> job”")

    with SyncQueue(f"{queue.name}-2", redis_url=valkey_url) as other:
        for one in (queue, other):
            one.add("twice", 1, job_id=f"own-{queue.name}")
    page = tab.open(page_of(queue))
    field = page.get_by_label("Find a job by id")
    field.fill(f"own-{queue.name}")
    field.press("Enter")
    dialog = page.get_by_role("dialog", name="Jobs found")
    expect(dialog.get_by_role("link")).to_have_count(2)
    expect(dialog.get_by_role("link").first).to_have_text(f"main / {queue.name}")
    assert no_wider_than_the_screen(page)
    dialog.get_by_role("link").last.click()
    expect(page.locator("h1")).to_have_text(f"own-{queue.name}")
    assert f"{queue.name}-2" in page.url


@pytest.mark.parametrize(("width", "dark"), [(1280, True), (400, False)], ids=["large and dark", "small and light"])
def test_waiting_jobs_of_one_name(open_tab: OpenTab, queue: SyncQueue, width: int, dark: bool) -> None:
    queue.add_bulk([{"name": f"name-{n % 30}", "data": {"n": n}} for n in range(90)])
    page = open_tab(AnyGuard(), width=width, dark=dark).open(page_of(queue, "waiting"))
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    field = page.get_by_label("Name", exact=True)
    field.fill("name-7")
    field.press("Enter")
    expect(rows).to_have_count(3)
    expect(rows.last).to_contain_text('"n": 67')
    assert no_wider_than_the_screen(page)
    field.fill("nothing")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".below")).to_contain_text("No job has this name")
    field.fill("")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(50)
