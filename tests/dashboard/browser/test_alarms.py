"""A queue that needs somebody is red, with the reason in words, wherever it is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.test_views import no_wider_than_the_screen, page_of
from tests.support.dashboards import AnyGuard

if TYPE_CHECKING:
    import redis

    from chasqui_engine import SyncQueue
    from tests.dashboard.browser.test_views import OpenTab

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (400, False), (400, True)], ids=["large", "dark", "small", "both"]
)
def test_alarms_come_and_go(open_tab: OpenTab, queue: SyncQueue, client: redis.Redis, width: int, dark: bool) -> None:
    stream = f"{{chasqui:{queue.name}}}:stream"
    client.xadd(stream, {"d": b"x"}, id=f"{client.time()[0] * 1000 - 720_000}-0")
    queue.add("welcome", 1)
    tab = open_tab(AnyGuard(), width=width, dark=dark)
    page = tab.open()
    page.get_by_label("Find a queue").fill(queue.name)
    row = page.locator("tbody tr", has_text=queue.name)
    expect(row.locator(".alarm")).to_have_count(2)
    expect(row.locator(".alarm").first).to_have_text("No worker")
    expect(row.locator(".alarm").last).to_contain_text("Waits 12 m")
    assert no_wider_than_the_screen(page)

    page = tab.open(page_of(queue))
    alarms = page.get_by_role("group", name="Alarms")
    expect(alarms).to_contain_text("2 jobs wait, and no worker runs. Start one:")
    expect(alarms).to_contain_text(f"chasqui worker MODULE:HANDLER -q {queue.name}")
    expect(alarms).to_contain_text("The oldest job has waited for 12 m")
    assert no_wider_than_the_screen(page)

    client.xgroup_create(stream, "default", "0")
    client.xgroup_createconsumer(stream, "default", "worker-7")
    expect(alarms.locator("p")).to_have_count(1)
    client.xtrim(stream, maxlen=0)
    expect(alarms.locator("p")).to_have_count(0)
    expect(alarms).to_be_hidden()
