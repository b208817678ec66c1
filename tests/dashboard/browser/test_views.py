"""Each view, as a person finds it: on a large screen and a small one, light and dark, by mouse and by keyboard."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from chasqui_engine import RepeatPattern
from tests.dashboard.browser.conftest import PATIENCE_MS
from tests.support.dashboards import AnyGuard, dead_fields, dead_key
from tests.support.processes import Process
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis
    from playwright.sync_api import Page

    from chasqui_engine import SyncQueue
    from tests.dashboard.browser.conftest import Tab

    OpenTab = Callable[..., Tab]

CHORES = """
from chasqui_engine import handler

@handler("fails")
async def fails(job):
    raise ValueError("mailbox is full")

@handler("works")
async def works(job):
    return {"sent": "ada"}
"""

expect.set_options(timeout=PATIENCE_MS)
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def furnished(queue: SyncQueue, client: redis.Redis) -> SyncQueue:
    """A queue with something in every view."""
    queue.add_bulk([{"name": "welcome", "data": {"to": f"user-{n}"}} for n in range(3)])
    queue.add("later", {"n": 1}, delay_ms=3_600_000)
    queue.add("report", {}, repeat=RepeatPattern.cron("30 9 * * *", "Asia/Kolkata"))
    client.xadd(dead_key(queue.name), dead_fields({"n": 1}, error="ValueError: mailbox is full"))
    stream = f"{{chasqui:{queue.name}}}:stream"
    client.xgroup_create(stream, "default", "0")
    client.xreadgroup("default", "worker-7", {stream: ">"}, count=1)
    for number in range(20):
        event = {"e": "completed", "id": f"e{number}", "ts": "1", "attempt": "1", "duration_us": "1500"}
        client.xadd(f"{{chasqui:{queue.name}}}:events", event)
    return queue


def page_of(queue: SyncQueue, tab: str = "") -> str:
    return f"queues/main/{quote(queue.name, safe='')}" + (f"?tab={tab}" if tab else "")


def no_wider_than_the_screen(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_a_server_counts_once_however_many_connections_lead_there(open_tab: OpenTab, furnished: SyncQueue) -> None:
    page = open_tab(further=("second", "third")).page
    sections = page.locator("section.card")
    expect(sections).to_have_count(3)
    expect(sections.nth(2).locator(".address")).to_contain_text("the same server as main")
    expect(sections.nth(0).locator(".address")).not_to_contain_text("the same server")
    tile = page.locator(".tile", has_text="Delayed").locator(".tile-value")
    expect(tile).to_have_text(str(sum(map(int, sections.nth(0).locator("td.delayed").all_inner_texts()))))


def test_from_the_list_of_queues_to_a_job(open_tab: OpenTab, furnished: SyncQueue) -> None:
    page = open_tab(AnyGuard()).open()
    page.get_by_label("Find a queue").fill(furnished.name)
    row = page.locator("tbody tr", has_text=furnished.name)
    expect(row).to_have_count(1)
    expect(row.locator("td.waiting")).to_have_text("2")
    expect(row.locator("td.active")).to_have_text("1")
    expect(row.locator("td.dead")).to_have_text("1")
    row.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text(furnished.name)
    page.get_by_role("button", name=re.compile("^Waiting")).click()
    page.locator("tbody td.id a").first.click()
    expect(page.locator("#state")).to_have_text("waiting")
    expect(page.locator("pre").first).to_contain_text('"to": "user-1"')
    page.get_by_role("navigation").get_by_role("link", name=furnished.name).click()
    expect(page.locator("h1")).to_have_text(furnished.name)


def test_a_job_between_two_runs_and_one_that_ended(
    open_tab: OpenTab, queue: SyncQueue, valkey_url: str, tmp_path: Path
) -> None:
    (tmp_path / "chores.py").write_text(CHORES)
    again = queue.add("fails", {"n": 1}, attempts=5, backoff=600_000)
    done = queue.add("works", {"n": 2})
    with Process(valkey_url, tmp_path, "worker", "chores", "-q", queue.name, "--store-results", "--json"):
        wait_for(lambda: queue.get_result(done.id) and queue.counts().delayed, "one has ended and one waits again")
    tab = open_tab(AnyGuard())
    page = tab.open(f"{page_of(queue)}/jobs/{again.id}")
    expect(page.locator("#state")).to_have_text("failed")
    about = page.locator("section.card", has_text="About")
    expect(about).to_contain_text("Runs1 of 5")
    expect(about).to_contain_text(re.compile(r"Runs next.*\(in 9 m"))
    expect(about).to_contain_text(re.compile("Last error.*mailbox is full"))

    page = tab.open(f"{page_of(queue)}/jobs/{done.id}")
    expect(page.locator("#state")).to_have_text("completed")
    expect(page.locator("section.card", has_text="About")).to_contain_text("Took")
    expect(page.locator("pre", has_text='"sent": "ada"')).to_be_visible()


def test_the_plots_show_what_happened(open_tab: OpenTab, furnished: SyncQueue) -> None:
    page = open_tab(AnyGuard(), live_interval_s=5).open(page_of(furnished))
    expect(page.locator(".plot rect.ok").first).to_be_visible()
    expect(page.locator(".plot").first).to_have_attribute("aria-label", re.compile("Jobs per second. completed: now"))
    expect(page.locator("tbody").last).to_contain_text("worker-7")
    page.get_by_role("button", name="1 hour").click()
    expect(page.get_by_role("button", name="1 hour")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".plot rect.ok").first).to_be_visible()
    page.locator(".plot rect.ok").first.hover()
    expect(page.locator(".tip").first).to_contain_text("completed")
    expect(page.locator(".tip").first).to_contain_text(" UTC")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["large", "small and dark"])
def test_plots_reach_back_weeks_and_show_depth_and_names(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, width: int, dark: bool
) -> None:
    day, prefix = int(time.time()) // 86_400, f"{{chasqui:{queue.name}}}"
    for age in range(1, 6):
        fields = {"3:c:welcome": 500, "3:f:welcome": 2, "3:t:40": 502, "3:depth": f"{age * 10},4,2"}
        client.hset(f"{prefix}:tally:hour:{day - age}", mapping=fields)
    page = open_tab(AnyGuard(), width=width, dark=dark).open(page_of(queue))
    expect(page.locator("main")).to_contain_text("No worker counted a job in this time.")
    for text in ("p50", "p95", "p99"):
        expect(page.locator(".legend").nth(1)).to_contain_text(text)
    page.get_by_role("button", name="1 week").click()
    row = page.locator("tbody tr", has_text="welcome")
    expect(row.locator(".completed")).to_have_text("2,500")
    expect(row.locator(".failures")).to_have_text("10")
    expect(page.locator(".plot").nth(2)).to_have_attribute("aria-label", re.compile("waiting: now 10, at most 50"))
    expect(page.locator(".plot rect.ok").first).to_be_visible()
    assert no_wider_than_the_screen(page)
    page.get_by_role("button", name="5 min", exact=True).click()
    expect(page.locator(".plot rect")).to_have_count(0)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["large and light", "small and dark"])
def test_every_view_on_every_screen(open_tab: OpenTab, furnished: SyncQueue, width: int, dark: bool) -> None:
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    shown = {
        "waiting": "user-1",
        "active": "worker-7",
        "delayed": "later",
        "repeating": "09:30:00+05:30",
        "dead": "mailbox is full",
    }
    page = tab.open()
    assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    assert no_wider_than_the_screen(page)
    page = tab.open(page_of(furnished))
    for name, text in shown.items():
        page.locator(f'[data-tab="{name}"]').click()
        expect(page.locator("tbody").first).to_contain_text(text)
        assert no_wider_than_the_screen(page), name
        assert f"tab={name}" in page.url
    page = tab.open(f"{page_of(furnished)}/jobs/job-1")
    expect(page.locator("#state")).to_have_text("dead")
    assert no_wider_than_the_screen(page)


def test_the_view_of_an_address_is_in_sight_on_a_small_screen(open_tab: OpenTab, furnished: SyncQueue) -> None:
    page = open_tab(AnyGuard(), width=390).open(f"{page_of(furnished)}?tab=dead")
    expect(page.locator("tbody").first).to_contain_text("mailbox is full")
    expect(page.locator('[data-tab="dead"]')).to_be_in_viewport(ratio=0.9)


def test_light_and_dark_by_choice(open_tab: OpenTab) -> None:
    tab = open_tab(AnyGuard())
    page = tab.open()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page = tab.open()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_empty_views_say_what_to_do(open_tab: OpenTab, queue: SyncQueue) -> None:
    page = open_tab(AnyGuard()).open(page_of(queue))
    expect(page.locator("main")).to_contain_text(f"chasqui worker MODULE:HANDLER -q {queue.name}")
    for name, text in {
        "waiting": "No waiting jobs",
        "repeating": "chasqui repeatable add",
        "dead": "No dead letters",
    }.items():
        page.locator(f'[data-tab="{name}"]').click()
        expect(page.locator("#view")).to_contain_text(text)
    page = open_tab(AnyGuard()).open(f"{page_of(queue)}/jobs/nobody")
    expect(page.locator("main")).to_contain_text("This job is unknown")


def test_by_keyboard_alone(open_tab: OpenTab, furnished: SyncQueue, client: redis.Redis) -> None:
    page = open_tab(AnyGuard()).open(page_of(furnished))
    page.bring_to_front()
    press_first(page)
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    press_until(page, '[data-tab="dead"]')
    page.keyboard.press("Enter")
    expect(page.locator("table.dead tbody tr")).to_have_count(1)
    press_until(page, "table.dead tbody input")
    page.keyboard.press("Space")
    expect(page.locator(".chosen")).to_have_text("1 selected")
    press_until(page, "#delete", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert client.xlen(dead_key(furnished.name)) == 1
    press_until(page, "#delete")
    page.keyboard.press("Enter")
    press_until(page, "dialog .danger")
    page.keyboard.press("Enter")
    wait_for(lambda: client.xlen(dead_key(furnished.name)) == 0, "the dead letter to be deleted")


def press_first(page: Page) -> None:
    """Moves the focus onto the page. On a busy machine the browser drops keys that come before its first frame."""
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement !== document.body"):
            return
        page.wait_for_timeout(100)


def press_until(page: Page, selector: str, key: str = "Tab") -> None:
    """Moves the focus until it is there."""
    for _ in range(60):
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} is not reached with {key}")


def test_live_without_reload(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis) -> None:
    tab = open_tab(AnyGuard())
    page = tab.open(page_of(queue, "dead"))
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.neverReloaded = true")
    client.xadd(dead_key(queue.name), dead_fields(1, error="ValueError: just now"))
    expect(page.locator('[data-tab="dead"] .count')).to_have_text("1")
    expect(page.locator("table.dead tbody")).to_contain_text("just now")
    queue.add("n", 1)
    expect(page.locator('[data-tab="waiting"] .count')).to_have_text("1")
    queue.pause()
    expect(page.locator(".page-head .badge")).to_be_visible()
    assert page.evaluate("window.neverReloaded") is True
    queue.resume()


def test_a_page_that_gets_no_stream_asks_now_and_then(open_tab: OpenTab, queue: SyncQueue) -> None:
    tab = open_tab(AnyGuard(), most_watchers=0)
    tab.expects(503)
    page = tab.open(page_of(queue))
    expect(page.locator("#live")).to_have_text("Updating")
    queue.add("n", 1)
    expect(page.locator('[data-tab="waiting"] .count')).to_have_text("1")


def test_pause_and_resume(open_tab: OpenTab, queue: SyncQueue) -> None:
    page = open_tab(AnyGuard()).open(page_of(queue))
    page.locator("#pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("#pause")).to_have_text("Resume")
    assert queue.is_paused()
    page.locator("#pause").click()
    expect(page.locator("#pause")).to_have_text("Pause")
    assert not queue.is_paused()


def test_payloads_that_are_masked_or_hidden(open_tab: OpenTab, furnished: SyncQueue) -> None:
    for payloads, shown in {"mask": '{"to": "‹text›"}', "hide": "hidden"}.items():
        page = open_tab(AnyGuard(), payloads=payloads).open(page_of(furnished, "waiting"))
        expect(page.locator("td.payload").first).to_have_text(shown)


def test_the_link_with_the_token_opens_it_and_others_do_not(open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.expects(401, 404)  # for the page, and for the icon of a page that names none
    expect(tab.page.locator("h1")).to_have_text("Queues")
    assert "token" not in tab.page.url
    tab.page.context.clear_cookies()
    response = tab.page.goto(tab.url)
    assert response is not None
    assert response.status == 401
    expect(tab.page.locator("body")).to_contain_text("chasqui dashboard")
