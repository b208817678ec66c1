"""Acting on jobs and repeatables, by the page."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from chasqui_engine import JobState, RepeatPattern
from tests.dashboard.browser.conftest import PATIENCE_MS
from tests.dashboard.browser.test_views import no_wider_than_the_screen, page_of
from tests.support.dashboards import AnyGuard, dead_fields, dead_key

if TYPE_CHECKING:
    import redis
    from playwright.sync_api import Locator, Page

    from chasqui_engine import SyncQueue
    from tests.dashboard.browser.test_views import OpenTab

HOUR_MS = 3_600_000
BOTH = pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["large", "small and dark"])

expect.set_options(timeout=PATIENCE_MS)
pytestmark = pytest.mark.timeout(180)


def press(page: Page, act: str) -> None:
    page.locator(f'[data-act="{act}"]').click()


def dialog_of(page: Page, *, action: str | None = None) -> Locator:
    """The open dialog; presses its button if one is named."""
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert no_wider_than_the_screen(page)
    if action is not None:
        dialog.get_by_role("button", name=action, exact=True).click()
    return dialog


def tomorrow() -> str:
    """As the field takes it."""
    return (datetime.now().astimezone() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")


def told(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator(".toast")).to_contain_text(text)


@BOTH
def test_a_delayed_job_from_its_page(open_tab: OpenTab, queue: SyncQueue, width: int, dark: bool) -> None:
    jobs = [queue.add("later", n, delay_ms=HOUR_MS).id for n in range(3)]
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    page = tab.open(f"{page_of(queue)}/jobs/{jobs[0]}")
    assert no_wider_than_the_screen(page)
    press(page, "run-now")
    told(page, "The job was put on the queue, to run now.")
    expect(page.locator("#state")).to_have_text("waiting")

    page = tab.open(f"{page_of(queue)}/jobs/{jobs[1]}")
    before = queue.get_job(jobs[1]).run_at_ms
    press(page, "reschedule")
    dialog = dialog_of(page)
    dialog.get_by_label("Run at").fill("2040-05-06T07:08")
    dialog.get_by_role("button", name="Reschedule").click()
    told(page, "The job was rescheduled to 2040-05-06 ")
    after = queue.get_job(jobs[1]).run_at_ms
    assert after is not None
    assert before is not None
    assert after > before

    page = tab.open(f"{page_of(queue)}/jobs/{jobs[2]}")
    press(page, "cancel")
    dialog_of(page, action="Cancel")
    assert queue.get_job(jobs[2]).state is JobState.DELAYED
    press(page, "cancel")
    dialog_of(page, action="Cancel it")
    told(page, "The job was cancelled.")
    assert queue.get_job(jobs[2]).state is JobState.UNKNOWN


def test_a_waiting_job_is_removed_from_its_page_after_a_question(open_tab: OpenTab, queue: SyncQueue) -> None:
    job = queue.add("n", 1)
    page = open_tab(AnyGuard()).open(f"{page_of(queue)}/jobs/{job.id}")
    press(page, "remove")
    dialog_of(page, action="Remove")
    told(page, "The job was removed.")
    expect(page.locator("#state")).to_have_text("unknown")
    expect(page.locator("#acts button")).to_have_count(0)


@BOTH
def test_selected_jobs_of_a_list(open_tab: OpenTab, queue: SyncQueue, width: int, dark: bool) -> None:
    queue.add_bulk([{"name": "n", "data": n} for n in range(4)])
    later = [queue.add("later", n, delay_ms=HOUR_MS + n).id for n in range(4)]
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    page = tab.open(page_of(queue, "waiting"))
    expect(page.locator('[data-act="remove"]')).to_be_hidden()
    for box in page.locator("tbody input").all()[:3]:
        box.check()
    expect(page.locator(".chosen")).to_have_text("3 selected")
    assert no_wider_than_the_screen(page)
    press(page, "remove")
    expect(dialog_of(page)).to_contain_text("Deletes 3 jobs")
    dialog_of(page, action="Remove")
    told(page, "3 removed.")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert [one.job.payload for one in queue.list_waiting() if one.job] == [3]

    page = tab.open(page_of(queue, "delayed"))
    page.locator(f'tbody input[value="{later[0]}"]').check()
    queue.cancel_delayed(later[1])  # somebody else
    page.locator(f'tbody input[value="{later[1]}"]').check()
    press(page, "run-now")
    told(page, "1 put on the queue, to run now; 1 had moved on, or is gone.")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.locator("tbody input").first.check()
    page.locator("tbody input").last.check()
    press(page, "cancel")
    dialog_of(page, action="Cancel it")
    told(page, "2 cancelled.")
    expect(page.locator("#view")).to_contain_text("No delayed jobs")


def test_a_selection_stays_while_jobs_come(open_tab: OpenTab, queue: SyncQueue) -> None:
    queue.add("n", 1)
    page = open_tab(AnyGuard()).open(page_of(queue, "waiting"))
    page.locator("tbody input").check()
    page.locator("h1").click()
    queue.add("n", 2)
    expect(page.locator('[data-tab="waiting"] .count')).to_have_text("2")
    expect(page.locator("tbody input")).to_have_count(1)
    expect(page.locator("tbody input")).to_be_checked()


@BOTH
def test_a_dead_letter_is_edited_and_replayed(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, width: int, dark: bool
) -> None:
    client.xadd(dead_key(queue.name), dead_fields({"to": "nobody", "raw": b"\xff"}))
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    tab.expects(400)
    page = tab.open(f"{page_of(queue)}/jobs/job-1")
    press(page, "edit")
    dialog = dialog_of(page)
    field = dialog.get_by_label("Payload")
    assert json.loads(field.input_value()) == {"to": "nobody", "raw": {"$bytes": "/w=="}}
    field.fill('{"to": ')
    dialog.get_by_role("button", name="Replay").click()
    expect(dialog.get_by_role("alert")).to_contain_text("payload: not JSON")
    field.fill('{"to": "ada"}')
    dialog.get_by_role("button", name="Replay").click()
    told(page, "The job was put back on the queue with its new payload.")
    expect(page.locator("#state")).to_have_text("waiting")
    assert [one.job.payload for one in queue.list_waiting() if one.job] == [{"to": "ada"}]
    assert client.xlen(dead_key(queue.name)) == 0


def test_a_dead_letter_is_replayed_or_deleted_from_its_details(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis
) -> None:
    for n in range(2):
        client.xadd(dead_key(queue.name), dead_fields({"n": n}, job_id=f"job-{n}"))
    page = open_tab(AnyGuard()).open(page_of(queue, "dead"))
    page.get_by_role("button", name="Details").first.click()
    page.locator('.letter-whole [data-act="replay"]').click()
    told(page, "The job was put back on the queue.")
    expect(page.locator("table.dead tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Details").first.click()
    page.locator('.letter-whole [data-act="delete"]').click()
    dialog_of(page, action="Delete")
    told(page, "The job was deleted.")
    assert client.xlen(dead_key(queue.name)) == 0


@BOTH
def test_a_job_is_added_by_a_form(open_tab: OpenTab, queue: SyncQueue, width: int, dark: bool) -> None:
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    tab.expects(400)
    page = tab.open(page_of(queue))
    page.locator("#add").click()
    dialog = dialog_of(page)
    dialog.get_by_label("Name").fill("welcome")
    dialog.get_by_label("Payload").fill("{to: 1}")
    dialog.get_by_label("Id", exact=True).fill("own")
    dialog.get_by_label("Runs at most").fill("3")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("payload: not JSON")
    dialog.get_by_label("Payload").fill('{"to": "ada"}')
    dialog.get_by_role("button", name="Add", exact=True).click()
    told(page, "Added: own")
    page.locator(".toast a").click()
    expect(page.locator("#state")).to_have_text("waiting")
    job = queue.get_job("own")
    assert (job.name, job.payload, job.max_attempts) == ("welcome", {"to": "ada"}, 3)

    page = tab.open(page_of(queue))
    page.locator("#add").click()
    dialog_of(page).get_by_label("Id", exact=True).fill("own")
    dialog_of(page, action="Add")
    told(page, "Nothing was added, for its id is taken: own")
    page.locator("#add").click()
    dialog = dialog_of(page)
    dialog.get_by_label("Run at").fill(tomorrow())
    dialog.get_by_role("button", name="Add", exact=True).click()
    told(page, "Added: ")
    assert queue.counts().delayed == 1


@BOTH
def test_a_repeatable_is_fired_paused_resumed_and_removed(
    open_tab: OpenTab, queue: SyncQueue, width: int, dark: bool
) -> None:
    queue.add("report", {"a": 1}, repeat=RepeatPattern.cron("30 9 * * *", "Asia/Kolkata"))
    page = open_tab(AnyGuard(), width=width, dark=dark).open(page_of(queue, "repeating"))
    row = page.locator("tbody tr")
    expect(row).to_contain_text("30 9 * * *")
    assert no_wider_than_the_screen(page)
    press(page, "fire")
    told(page, re.compile("Fired: added the job .+"))
    assert [one.name for one in queue.list_waiting()] == ["report"]
    press(page, "pause")
    expect(row).to_contain_text("Paused")
    expect(row).to_contain_text("when it is resumed")
    assert queue.list_repeatable()[0].is_paused
    press(page, "resume")
    expect(row).not_to_contain_text("Paused")
    press(page, "remove")
    dialog_of(page, action="Remove")
    told(page, "Removed: it makes no more jobs.")
    expect(page.locator("#view")).to_contain_text("No repeatable jobs")
    assert queue.list_repeatable() == []


def test_what_the_server_refuses_is_said(open_tab: OpenTab, queue: SyncQueue) -> None:
    queue.add("report", {}, repeat=RepeatPattern.every(HOUR_MS))
    tab = open_tab(AnyGuard(), live_interval_s=3600)  # the page does not see by itself that it is gone
    tab.expects(404, 403)
    page = tab.open(page_of(queue, "repeating"))
    expect(page.locator("tbody tr")).to_have_count(1)
    queue.remove_repeatable(queue.list_repeatable()[0].key)
    press(page, "fire")
    told(page, "This repeatable no longer exists")
    page.context.clear_cookies()  # of another tab that has logged out
    page.locator("#pause").click()
    dialog_of(page, action="Pause")
    told(page, "reload the page and try again")
    assert not queue.is_paused()


def test_who_may_only_look_sees_no_way_to_act(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis) -> None:
    waiting = queue.add("n", 1)
    later = queue.add("n", 1, delay_ms=HOUR_MS)
    queue.add("report", {}, repeat=RepeatPattern.every(HOUR_MS))
    client.xadd(dead_key(queue.name), dead_fields(1))
    tab = open_tab(AnyGuard(may_change=False))
    places: dict[str, Any] = {
        **{page_of(queue, name): "tbody tr" for name in ("waiting", "delayed", "repeating", "dead")},
        **{f"{page_of(queue)}/jobs/{job}": "#state" for job in (waiting.id, later.id, "job-1")},
    }
    for path, drawn in places.items():
        page = tab.open(path)
        expect(page.locator(drawn).first).to_be_visible()
        expect(page.locator("[data-act], #add, #pause")).to_have_count(0)
    page = tab.open(page_of(queue, "waiting"))
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody input")).to_have_count(0)


def test_hidden_payloads_cannot_be_edited(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis) -> None:
    client.xadd(dead_key(queue.name), dead_fields(1))
    page = open_tab(AnyGuard(), payloads="mask").open(f"{page_of(queue)}/jobs/job-1")
    expect(page.locator('[data-act="replay"]')).to_be_visible()
    expect(page.locator('[data-act="edit"]')).to_have_count(0)


def test_a_running_job_is_aborted_from_its_page(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis) -> None:
    job_id = queue.add("n", 1).id
    client.xgroup_create(queue._queue.stream_key, "default", "0")
    client.xreadgroup("default", "silent", {queue._queue.stream_key: ">"})
    page = open_tab(AnyGuard()).open(f"{page_of(queue)}/jobs/{job_id}")
    expect(page.locator("#state")).to_have_text("active")
    press(page, "abort")
    dialog_of(page, action="Abort")
    told(page, "The job is to be aborted. Its worker has not stopped it yet.")
    assert client.zcard(f"{{chasqui:{queue.name}}}:aborts") == 1
