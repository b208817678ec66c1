"""A real browser on a real port."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import redis

from chasqui_engine import SyncQueue
from tests.servers import VALKEY, ServerProcess, Unavailable
from tests.support.dashboards import TOKEN, Served, app_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE_MS = 30_000


def _chromium() -> str:
    """The browser. Where there is none, the tests that need it say so; in CI they fail."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        return found
    words = "the dashboard is NOT TESTED in a browser: chromium is not on this machine; as root `make servers` gets it"
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(words)
    pytest.skip(words)


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    """A server of its own: the page lists the first 200 queues, and other tests leave theirs behind."""
    try:
        server = ServerProcess(VALKEY)
    except Unavailable as why:
        pytest.skip(f"the dashboard is NOT TESTED in a browser: {why}")
    with server:
        yield server.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = _chromium()
    from playwright.sync_api import sync_playwright

    # For the module: while it runs, this thread has an event loop, and no other test could have its own.
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGS, timeout=60_000)
        yield chromium
        chromium.close()


class Tab:
    """A page of the dashboard, and what went wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self._statuses: set[int] = set()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("console", lambda said: said.type == "error" and self.problems.append(f"console: {said.text}"))

    def expects(self, *statuses: int) -> None:
        """The browser notes each refused request, at once or a while later: these are part of the test."""
        self._statuses.update(statuses)

    def unexpected(self) -> list[str]:
        """What went wrong and was no part of the test."""
        forgiven = [f"a status of {status} " for status in self._statuses]
        return [problem for problem in self.problems if not any(words in problem for words in forgiven)]

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str = "") -> Page:
        """Goes there, and waits until it is drawn."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("main[data-ready]")
        return self.page


@pytest.fixture
def open_tab(browser: Browser, valkey_url: str) -> Iterator[Callable[..., Tab]]:
    """Opens a dashboard in a tab: `open_tab(guard, width=390, payloads="mask")`. Fails for any error in the page."""
    tabs: list[Tab] = []
    contexts: list[BrowserContext] = []
    serveds: list[Served] = []

    def opened(guard: Any = None, *, width: int = 1280, dark: bool = False, name: str = "main", **settings: Any) -> Tab:
        served = Served(app_for(valkey_url, guard, name=name, **settings))
        serveds.append(served)
        served.__enter__()
        scheme: Any = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        contexts.append(context)
        tab = Tab(context.new_page(), served.url)
        tabs.append(tab)
        if guard is None:
            tab.open(f"?token={TOKEN}")
        return tab

    try:
        yield opened
    finally:
        for context in contexts:
            context.close()
        for served in serveds:
            served.__exit__()
    assert [problem for tab in tabs for problem in tab.unexpected()] == []


@pytest.fixture
def queue(valkey_url: str, queue_name: str) -> Iterator[SyncQueue]:
    with SyncQueue(queue_name, redis_url=valkey_url) as one:
        yield one


@pytest.fixture
def client(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as one:
        yield one
