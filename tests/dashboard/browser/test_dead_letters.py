"""Acting on dead letters, by the page."""

from __future__ import annotations

import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.conftest import PATIENCE_MS
from tests.dashboard.browser.test_views import page_of
from tests.support.dashboards import AnyGuard, add_many_dead, dead_fields, dead_key
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from playwright.sync_api import Route

    from chasqui_engine import SyncQueue
    from tests.dashboard.browser.test_views import OpenTab

expect.set_options(timeout=PATIENCE_MS)
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def dead(queue: SyncQueue, client: redis.Redis) -> list[str]:
    """Six, the oldest first; every other one of another name."""
    ids: list[Any] = [
        client.xadd(dead_key(queue.name), dead_fields({"n": n}, job_id=f"job-{n}", name="odd" if n % 2 else "even"))
        for n in range(6)
    ]
    return [one.decode() for one in ids]


def left(client: redis.Redis, queue: SyncQueue) -> list[str]:
    found: Any = client.xrange(dead_key(queue.name))
    return [entry_id.decode() for entry_id, _ in found]


def test_replay_of_some(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, dead: list[str]) -> None:
    page = open_tab(AnyGuard()).open(page_of(queue, "dead"))
    expect(page.locator("#replay")).to_be_disabled()
    for one in dead[:2]:
        page.locator(f'tr[data-id="{one}"] input').check()
    expect(page.locator(".chosen")).to_have_text("2 selected")
    page.locator("#replay").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    expect(page.locator(".toast")).to_have_text("2 replayed.")
    expect(page.locator("table.dead tbody tr")).to_have_count(4)
    assert left(client, queue) == dead[2:]
    assert queue.counts().waiting == 2


def test_delete_asks_first(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, dead: list[str]) -> None:
    page = open_tab(AnyGuard()).open(page_of(queue, "dead"))
    page.locator(f'tr[data-id="{dead[0]}"] input').check()
    page.locator("#delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 dead letter of")
    dialog.get_by_role("button", name="Cancel").click()
    assert left(client, queue) == dead
    page.locator("#delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".toast")).to_have_text("1 deleted.")
    assert left(client, queue) == dead[1:]


def test_all_that_match_a_filter(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, dead: list[str]) -> None:
    page = open_tab(AnyGuard(), page_size=2).open(page_of(queue, "dead"))
    page.get_by_label("Name").fill("odd")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("table.dead tbody tr")).to_have_count(2)
    expect(page.locator("table.dead tbody")).not_to_contain_text("even")
    page.get_by_role("button", name="Select all that match").click()
    page.locator("#delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("every dead letter that matches")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator(".toast")).to_have_text("3 deleted.")
    expect(page.locator("#view")).to_contain_text("No dead letter matches")
    assert left(client, queue) == dead[::2]
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("table.dead tbody tr")).to_have_count(2)


def test_export(open_tab: OpenTab, queue: SyncQueue, dead: list[str], tmp_path: Path) -> None:
    page = open_tab(AnyGuard()).open(page_of(queue, "dead"))
    page.locator(f'tr[data-id="{dead[3]}"] input').check()
    with page.expect_download() as saved:
        page.locator("#export").click()
    saved.value.save_as(tmp_path / "some.jsonl")
    [line] = (tmp_path / "some.jsonl").read_text().splitlines()
    assert (json.loads(line)["job_id"], json.loads(line)["payload"]) == ("job-3", {"n": 3})
    page.get_by_role("button", name="Select all 6").click()
    with page.expect_download() as every:
        page.locator("#export").click()
    every.value.save_as(tmp_path / "all.jsonl")
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 6


def test_details_and_pages(open_tab: OpenTab, queue: SyncQueue, dead: list[str]) -> None:
    page = open_tab(AnyGuard(), page_size=4).open(page_of(queue, "dead"))
    expect(page.locator("table.dead tbody tr")).to_have_count(4)
    open_one = page.locator(f'tr[data-id="{dead[5]}"]').get_by_role("button", name="Details")
    open_one.click()
    expect(page.locator(".letter-whole pre").nth(1)).to_contain_text('"n": 5')
    expect(open_one).to_have_attribute("aria-expanded", "true")
    open_one.click()
    expect(page.locator(".letter-whole")).to_have_count(0)
    page.get_by_role("button", name="Older").click()
    expect(page.locator("table.dead tbody tr")).to_have_count(2)
    expect(page.locator(".pager")).to_contain_text("Page 2 · 6 dead letters in total")
    expect(page.get_by_role("button", name="Older")).to_be_disabled()
    page.locator("#select-page").check()
    page.locator("#delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    # That page is no more.
    expect(page.locator(".pager")).to_contain_text("Page 1 · 4 dead letters in total")
    expect(page.locator("table.dead tbody tr")).to_have_count(4)


def test_what_is_being_read_is_not_drawn_anew(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, dead: list[str]
) -> None:
    """However late the list's answers are: the one that was under way when a letter was opened, too."""
    page = open_tab(AnyGuard()).open(page_of(queue))
    lists: list[str] = []

    def slowly(route: Route) -> None:
        lists.append(route.request.url)
        time.sleep(0.5)
        route.continue_()

    page.route("**/api/queue/dead?*", slowly)
    page.locator('[data-tab="dead"]').click()
    expect(page.locator("table.dead tbody tr")).to_have_count(6)
    page.locator(f'tr[data-id="{dead[5]}"]').get_by_role("button", name="Details").click()
    expect(page.locator(".letter-whole pre").nth(1)).to_contain_text('"n": 5')
    assert len(lists) == 1
    client.xadd(dead_key(queue.name), dead_fields(1, error="ValueError: just now"))
    expect(page.locator("#fresh")).to_be_visible()
    expect(page.locator(".letter-whole")).to_be_visible()
    page.locator("#fresh").click()
    expect(page.locator("table.dead tbody")).to_contain_text("just now")


def test_who_may_only_look_sees_no_buttons(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, dead: list[str]
) -> None:
    tab = open_tab(AnyGuard(may_change=False))
    tab.expects(403)
    page = tab.open(page_of(queue, "dead"))
    page.locator("#select-page").check()
    expect(page.locator("#export")).to_be_enabled()
    for button in ("#replay", "#delete", "#pause"):
        expect(page.locator(button)).to_have_count(0)
    expect(page.locator("#user")).to_have_text("ada · read only")
    status = page.evaluate(
        """async ([queue, ids]) => {
             const me = await (await fetch("api/me")).json();
             const address = `api/queue/dead/delete?connection=main&queue=${encodeURIComponent(queue)}`;
             const headers = { "content-type": "application/json", "x-chasqui-csrf": me.csrf };
             return (await fetch(address, { method: "POST", headers, body: JSON.stringify({ ids }) })).status;
           }""",
        [queue.name, dead],
    )
    assert status == 403
    assert left(client, queue) == dead


def test_a_hundred_thousand(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis) -> None:
    add_many_dead(client, queue.name, 100_000)
    tab = open_tab(AnyGuard())
    page = tab.open(page_of(queue, "dead"))
    expect(page.locator(".pager")).to_contain_text("Page 1 · 100,000 dead letters in total")
    expect(page.locator("table.dead tbody tr").first).to_contain_text("job-100000")
    for number in range(2, 5):
        page.get_by_role("button", name="Older").click()
        expect(page.locator(".pager")).to_contain_text(f"Page {number} ·")
    expect(page.locator("table.dead tbody tr").first).to_contain_text("job-99850")

    place = {"connection": "main", "queue": queue.name}
    with httpx.Client(base_url=tab.url, timeout=PATIENCE_MS / 1000) as api:
        plain = timed_pages(api, place, 30)
        filtered = timed_pages(api, {**place, "reason": "unrecoverable", "name": "name-5"}, 10)
        rare = timed_pages(api, {**place, "error": "number 7 "}, 10)
    for name, times in {"plain": plain, "filtered": filtered, "a filter nothing matches": rare}.items():
        print(f"{name}: median {statistics.median(times) * 1000:.0f} ms, worst {max(times) * 1000:.0f} ms")
        assert statistics.median(times) < 1, name

    page.get_by_role("button", name="Select all 100,000").click()
    page.locator("#delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    wait_for(lambda: client.xlen(dead_key(queue.name)) == 0, "all to be deleted", timeout_s=90)
    expect(page.locator("#view")).to_contain_text("No dead letters")


def timed_pages(api: httpx.Client, params: dict[str, Any], count: int) -> list[float]:
    times, before = [], None
    for _ in range(count):
        began = time.monotonic()
        page = api.get("api/queue/dead", params={**params, **({"before": before} if before else {})}).json()
        times.append(time.monotonic() - began)
        before = page["next"]
        if before is None:
            break
    return times
