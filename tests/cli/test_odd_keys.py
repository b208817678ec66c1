"""Keys that no queue can have, or of the wrong type: they are shown as what they are, and hide no other queue."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import redis

from chasqui_engine import SyncQueue
from tests.cli.test_hostile_text import in_terminal, unseen
from tests.servers import VALKEY, ServerProcess
from tests.support.dashboards import AnyGuard, Served, app_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Said

ODD_NAMES = [b"", b"   ", b"a{b", b"\xff\xfe", b"tab\there", b"esc\x1b]0;owned\x07", b"x" * 300]
WRONG_TYPES = {"stream": "zset", "delayed": "stream", "dlq": "zset", "repeat": "stream", "events": "zset"}


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    """A server of its own: these keys would be in every other test's list."""
    with ServerProcess(VALKEY) as server, redis.Redis.from_url(server.url) as client:
        for name in ODD_NAMES:
            client.xadd(b"{chasqui:" + name + b"}:stream", {"d": b"x"})
        for key, kind in WRONG_TYPES.items():
            # A second key, so that the queue is found whatever the first one is.
            client.xadd(f"{{chasqui:bad-{key}}}:other", {"d": b"x"})
            add = client.zadd if kind == "zset" else client.xadd
            add(f"{{chasqui:bad-{key}}}:{key}", {"d": 1})  # type: ignore[operator]
        for n, score in enumerate(("inf", "-inf", "1e300")):
            client.zadd(f"{{chasqui:score-{n}}}:delayed", {b"x": score})  # type: ignore[dict-item]
            client.zadd(f"{{chasqui:score-{n}}}:repeat", {b"x": score})  # type: ignore[dict-item]
        with SyncQueue("good", redis_url=server.url) as queue:
            queue.add("n", 1)
        yield server.url


@pytest.mark.usefixtures("valkey_url")
def test_inspect_and_watch_name_the_bad_and_show_the_others(cli: Callable[..., Said]) -> None:
    for said in (cli("inspect", "--json"), cli("watch", "--count", "1", "--json")):
        assert said.code == 0
        found = said.json if isinstance(said.json, list) else said.json["queues"]
        good = [one["name"] for one in found if "error" not in one]
        assert good == ["good", "score-0", "score-1", "score-2"]
        bad = {one["name"]: one["error"] for one in found if "error" in one}
        assert set(bad) == {f"bad-{key}" for key in WRONG_TYPES} | {os.fsdecode(name) for name in ODD_NAMES}
        assert all("WRONGTYPE" in bad[f"bad-{key}"] for key in WRONG_TYPES)
    shown = cli("inspect").out
    assert "good" in shown
    assert "queue bad-dlq cannot be read: WRONGTYPE" in shown


@pytest.mark.parametrize("words", [("inspect",), ("watch", "--count", "1"), ("doctor",)])
def test_they_are_shown_in_a_terminal_without_harm(valkey_url: str, words: tuple[str, ...]) -> None:
    written = in_terminal(valkey_url, *words)
    assert "good" in written
    assert not unseen(written)


@pytest.mark.usefixtures("valkey_url")
def test_a_bad_queue_that_is_asked_for_is_a_failure(cli: Callable[..., Said]) -> None:
    said = cli("inspect", "bad-stream", "good", "--json")
    assert said.code == 1
    assert [one["name"] for one in said.json] == ["good", "bad-stream"]
    assert cli("inspect", "good").code == 0


@pytest.mark.usefixtures("valkey_url")
def test_doctor_says_what_is_wrong_with_each(cli: Callable[..., Said]) -> None:
    said = cli("doctor", "--json")
    assert said.code == 1
    levels = {one["what"]: one["level"] for one in said.json["findings"] if one["what"].startswith("queue")}
    assert all(levels[f"queue bad-{key}"] == "fail" for key in WRONG_TYPES)
    assert levels["queue a{b"] == "warn"
    assert levels["queue good"] == "warn"  # a job waits, and there is no worker


@pytest.mark.usefixtures("valkey_url")
@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_delayed_job_of_any_score_is_listed(cli: Callable[..., Said], n: int) -> None:
    for words in (("delayed", "list"), ("inspect",)):
        assert cli(*words, f"score-{n}").code == 0
        assert cli(*words, f"score-{n}", "--json").code == 0
    assert cli("repeatable", "list", f"score-{n}").code == 0


def test_the_page_lists_the_good_and_says_what_is_wrong_with_the_bad(valkey_url: str) -> None:
    with Served(app_for(valkey_url, AnyGuard())) as served, httpx.Client(base_url=served.url) as browser:
        [connection] = _answer(browser, "api/queues")["connections"]
        assert [row["queue"] for row in connection["queues"]] == ["good", "score-0", "score-1", "score-2"]
        assert len(connection["bad"]) == len(ODD_NAMES) + len(WRONG_TYPES)
        assert connection["total"] == len(ODD_NAMES) + len(WRONG_TYPES) + 4
        found = _answer(browser, "api/queues/search?connection=main&text=o")["queues"]
        assert [row["queue"] for row in found] == ["good", "score-0", "score-1", "score-2"]
        for n in range(3):
            at = f"connection=main&queue=score-{n}"
            assert _answer(browser, f"api/queue?{at}")["delayed"] == 1
            assert len(_answer(browser, f"api/queue/delayed?{at}")["rows"]) == 1
        assert browser.get("api/queue?connection=main&queue=bad-dlq").status_code == 503


def test_odd_names_do_not_push_good_ones_off_the_page(valkey_url: str) -> None:
    served = Served(app_for(valkey_url, AnyGuard(), most_queues=6))
    with served, httpx.Client(base_url=served.url) as browser:
        [connection] = _answer(browser, "api/queues")["connections"]
        assert [row["queue"] for row in connection["queues"]] == ["good"]


def _answer(browser: httpx.Client, path: str) -> Any:
    found = browser.get(path)
    assert found.status_code == 200, found.text
    return found.json()
