"""Whatever a queue or a job is called and contains, it is text on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from chasqui_engine import RepeatPattern, SyncQueue
from chasqui_engine.codec.envelope import encode_job
from chasqui_engine.codec.repeatable import encode_spec
from chasqui_engine.schedule.spec import RepeatableSpec
from chasqui_engine.values.job import Job
from tests.dashboard.browser.conftest import PATIENCE_MS
from tests.support.dashboards import AnyGuard, dead_fields, dead_key

if TYPE_CHECKING:
    import redis

    from tests.dashboard.browser.test_views import OpenTab

expect.set_options(timeout=PATIENCE_MS)
pytestmark = pytest.mark.timeout(180)

EVIL = "<img src=x onerror=alert(1)><script>window.pwned=1</script>\"'><svg onload=alert(2)>"
SMALL_EVIL = "<img src=x onerror=alert(1)>\"'><svg onload=alert(2)>"


@pytest.fixture
def evil(client: redis.Redis, queue_name: str) -> str:
    """A queue with markup in everything that it holds; its name."""
    name = f"{queue_name}{SMALL_EVIL}"
    prefix = f"{{chasqui:{name}}}"
    payload = {EVIL: [EVIL, {"deep": EVIL}], "javascript:alert(1)": "</pre><script>alert(3)</script>"}
    job = encode_job(Job(id=f"id{EVIL}", payload=payload, created_at_ms=1))
    waiting = encode_job(Job(id=f"w{EVIL}", payload=payload, created_at_ms=1))
    client.xadd(f"{prefix}:stream", {"d": job, "n": EVIL})
    client.xadd(f"{prefix}:stream", {"d": waiting, "n": EVIL})
    client.xgroup_create(f"{prefix}:stream", "default", "0")
    client.xreadgroup("default", f"worker{EVIL}", {f"{prefix}:stream": ">"}, count=1)
    fields = dead_fields(payload, job_id=f"dead{EVIL}", name=EVIL, reason=SMALL_EVIL, error=f"Error: {EVIL}")
    client.xadd(dead_key(name), fields)
    member = len(EVIL.encode()).to_bytes(4, "little") + EVIL.encode() + waiting
    client.zadd(f"{prefix}:delayed", {member: 4_000_000_000_000})
    spec = RepeatableSpec(job_name=EVIL, pattern=RepeatPattern.cron("0 9 * * *"), payload=EVIL, key=f"key{EVIL}")
    client.zadd(f"{prefix}:repeat", {f"key{EVIL}": 4_000_000_000_000})
    client.hset(f"{prefix}:repeat:spec:key{EVIL}", "spec", encode_spec(spec))
    for event in ("active", "progress", "failed", "dlq", f"own{EVIL}"):
        told = {
            "e": event,
            "id": f"dead{EVIL}",
            "ts": "1",
            "n": EVIL,
            "reason": EVIL,
            "progress": f'"{SMALL_EVIL}',
            EVIL: EVIL,
        }
        client.xadd(f"{prefix}:events", told)
    client.xadd(f"{prefix}:events", {"e": "completed", "id": "x", "ts": EVIL, "duration_us": EVIL})
    return name


def clean(page: Any) -> bool:
    """Whether nothing of it became an element, or ran."""
    return bool(
        page.evaluate(
            """() => window.pwned === undefined
                 && !document.querySelector("img[src=x], svg[onload], [onerror], main script, body > script, main img")
                 && document.querySelectorAll("script").length === 2"""
        )
    )


def test_markup_everywhere_stays_text(open_tab: OpenTab, evil: str) -> None:
    tab = open_tab(AnyGuard(), name=f"main{EVIL}")
    page = tab.open()
    expect(page.locator("h2").first).to_have_text(f"main{EVIL}")
    page.get_by_label("Find a queue").fill(evil)
    link = page.get_by_role("link", name=evil)
    expect(link).to_have_count(1)
    assert clean(page)
    link.click()
    page.wait_for_selector("main[data-ready]")
    expect(page.locator("h1")).to_have_text(evil)
    expect(page.locator("tbody").filter(has_text="worker")).to_contain_text(f"worker{EVIL}")
    assert clean(page)
    shown = {
        "waiting": f"w{EVIL}",
        "active": f"worker{EVIL}",
        "delayed": EVIL,
        "repeating": f"key{EVIL}",
        "dead": f"Error: {EVIL}",
    }
    for name, text in shown.items():
        page.locator(f'[data-tab="{name}"]').click()
        expect(page.locator("tbody").filter(has_text=text).first).to_be_visible()
        assert clean(page), name
    page.get_by_role("button", name="Details").click()
    expect(page.locator(".letter-whole pre").nth(1)).to_contain_text("</pre><script>alert(3)</script>")
    assert clean(page)
    page.locator("#select-page").check()
    page.locator("#replay").click()
    expect(page.get_by_role("dialog")).to_contain_text(evil)
    assert clean(page)
    page.keyboard.press("Escape")
    page.locator("table.dead td.id a").click()
    page.wait_for_selector("main[data-ready]")
    expect(page.locator("h1")).to_have_text(f"dead{EVIL}")
    expect(page.locator(".timeline")).to_contain_text(EVIL)
    expect(page.locator(".timeline")).to_contain_text(f"own{EVIL}")
    assert clean(page)


def test_a_bad_queue_is_named_and_the_others_are_listed(
    open_tab: OpenTab, queue: SyncQueue, client: redis.Redis
) -> None:
    queue.add("n", 1)
    bad, odd = f"{queue.name}{SMALL_EVIL}", "odd\x1b{name"
    client.zadd(f"{{chasqui:{bad}}}:stream", {"x": 1})
    client.xadd(f"{{chasqui:{odd}}}:stream", {"x": 1})
    page = open_tab(AnyGuard()).open()
    expect(page.locator("tbody")).to_contain_text(queue.name)
    expect(page.locator(".below")).to_contain_text(f"“{bad}” cannot be read: WRONGTYPE")
    expect(page.locator(".below")).to_contain_text("must not contain braces or control characters")
    assert clean(page)


def test_a_reason_of_any_length_leaves_the_other_columns_in_sight(
    open_tab: OpenTab, client: redis.Redis, queue_name: str
) -> None:
    for reason in ("x" * 72_000, "unrecoverable"):
        client.xadd(dead_key(queue_name), dead_fields(1, name=reason, reason=reason, error=f"Error: {reason}"))
    page = open_tab(AnyGuard()).open(f"queues/main/{queue_name}?tab=dead")
    expect(page.locator("td.error", has_text="Error: unrecoverable")).to_be_in_viewport()
    for button in page.get_by_role("button", name="Details").all():
        expect(button).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString"])
def test_an_event_of_any_name_is_a_step(open_tab: OpenTab, client: redis.Redis, queue_name: str, name: str) -> None:
    for event in ("waiting", name, "completed"):
        told = {"e": event, "id": "a", "ts": "1700000000000", "__proto__": "x", "constructor": "y"}
        client.xadd(f"{{chasqui:{queue_name}}}:events", told)
    page = open_tab(AnyGuard()).open(f"queues/main/{queue_name}/jobs/a")
    expect(page.locator(".timeline li")).to_have_count(3)
    expect(page.locator(".timeline")).to_contain_text(name)


def test_a_job_whose_id_has_a_line_break_has_a_page(open_tab: OpenTab, queue: SyncQueue) -> None:
    queue.add("n", {"hello": "line"}, job_id="two\nlines")
    page = open_tab(AnyGuard()).open(f"queues/main/{queue.name}?tab=waiting")
    page.get_by_role("link", name="two lines").click()
    expect(page.locator("#state")).to_have_text("waiting")
    expect(page.locator("pre").first).to_contain_text("hello")


NAMES = ["a/b", "a%2Fb", "..", "a b?c#d", "%", "ünï ✓", "jobs/", "queues", "a\\b", "a&b=c;d"]


def test_a_queue_of_any_name_has_a_page(open_tab: OpenTab, valkey_url: str, queue_name: str) -> None:
    # Names of the test's own, but for the one that is no such name with anything beside it.
    wholes = {name: name if name == ".." else f"{name}{queue_name}" for name in NAMES}
    for name, whole in wholes.items():
        with SyncQueue(whole, redis_url=valkey_url) as queue:
            queue.add("n", {"hello": whole}, job_id=f"{name}/{queue_name}")
    tab = open_tab(AnyGuard(), most_queues=10_000)
    for name, whole in wholes.items():
        page = tab.open()
        page.get_by_label("Find a queue").fill(whole)
        page.get_by_role("link", name=whole, exact=True).click()
        expect(page.locator("h1")).to_have_text(whole)
        page.locator('[data-tab="waiting"]').click()
        page.get_by_role("link", name=f"{name}/{queue_name}", exact=True).click()
        expect(page.locator("h1")).to_have_text(f"{name}/{queue_name}")
        expect(page.locator("#state")).to_have_text("waiting")
        expect(page.locator("pre").first).to_contain_text("hello")
