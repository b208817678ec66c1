"""What Prometheus is told of the queues, by a real process, with the server there, frozen, gone and back."""

from __future__ import annotations

import socket
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from chasqui_engine import SyncQueue
from tests.servers import VALKEY, ServerProcess, free_port
from tests.support.processes import TASKS, Process
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Said

MINUTE_MS = 60_000
Scraped = dict[tuple[str, str], float]


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess(VALKEY) as started:
        yield started


def scrape(port: int) -> Scraped:
    """Each sample, by metric and queue."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    found = {(one.name, one.labels.get("queue", "")): one.value for one in samples}
    assert len(found) == len(samples), "a sample is there twice"
    return found


def is_up(port: int) -> bool:
    return scrape(port)["chasqui_server_up", ""] == 1


def exporter(url: str, folder: Path, port: int, *words: str) -> Process:
    return Process(url, folder, "exporter", "--port", str(port), "--json", *words)


def test_it_tells_the_state_of_every_queue(server: ServerProcess, tmp_path: Path) -> None:
    port = free_port()
    with SyncQueue("mail", redis_url=server.url) as mail, redis.Redis.from_url(server.url) as raw:
        mail.add_bulk([{"name": "n", "data": n} for n in range(7)])
        now_ms = int(raw.time()[0] * 1000)
        raw.xadd("{chasqui:old}:stream", {"d": b"x"}, id=f"{now_ms - 10 * MINUTE_MS}-0")
        raw.zadd("{chasqui:old}:delayed", {b"\0\0\0\0x": now_ms - MINUTE_MS})
        raw.zadd("{chasqui:old}:repeat", {b"daily": now_ms - 2 * MINUTE_MS})
        raw.xadd("{chasqui:old}:dlq", {"d": b"x"})
        raw.set("{chasqui:old}:paused", "1")
        with exporter(server.url, tmp_path, port) as process:
            assert process.next_json() == {"event": "started", "url": f"http://127.0.0.1:{port}/metrics"}
            found = scrape(port)
    assert found["chasqui_server_up", ""] == 1
    assert 0 < found["chasqui_scrape_seconds", ""] < 5
    assert found["chasqui_queue_waiting_jobs", "mail"] == 7
    assert found["chasqui_queue_oldest_waiting_seconds", "mail"] < 60
    assert found["chasqui_queue_workers", "mail"] == found["chasqui_queue_paused", "mail"] == 0
    old = {name.removeprefix("chasqui_queue_"): value for (name, queue), value in found.items() if queue == "old"}
    assert 600 <= old.pop("oldest_waiting_seconds") < 660
    assert 60 <= old.pop("delayed_lag_seconds") < 120
    assert 120 <= old.pop("repeatables_lag_seconds") < 180
    assert old == {
        "waiting_jobs": 1,
        "prioritized_jobs": 0,
        "active_jobs": 0,
        "delayed_jobs": 1,
        "dead_letters": 1,
        "repeatables": 1,
        "workers": 0,
        "paused": 1,
        "readable": 1,
    }


def test_a_worker_is_counted_while_it_lives(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    port = free_port()
    worker = Process(server.url, tmp_path, "worker", "tasks:handle", "-q", "mail", "--json")
    with exporter(server.url, tmp_path, port, "-q", "mail") as process, SyncQueue("mail", redis_url=server.url) as mail:
        process.next_json()
        with worker:
            mail.add("n", {"sleep": 30})
            wait_for(lambda: scrape(port)["chasqui_queue_active_jobs", "mail"] == 1, "the job runs")
            assert scrape(port)["chasqui_queue_workers", "mail"] == 1
            worker.kill()
        # It still holds its job, and is counted until it has been silent for a minute.
        assert scrape(port)["chasqui_queue_active_jobs", "mail"] == 1


def test_a_bad_queue_harms_only_itself(server: ServerProcess, tmp_path: Path) -> None:
    port = free_port()
    with SyncQueue("good", redis_url=server.url) as good, redis.Redis.from_url(server.url) as raw:
        good.add("n", 1)
        raw.xadd("{chasqui:bad}:stream", {"d": b"x"})
        raw.set("{chasqui:bad}:delayed", "no sorted set")
        raw.xadd(b"{chasqui:odd\xff\x01}:stream", {"d": b"x"})
        raw.xadd('{chasqui:"q\\uoted"}:stream', {"d": b"x"})
        with exporter(server.url, tmp_path, port) as process:
            process.next_json()
            found = scrape(port)
    assert found["chasqui_queue_waiting_jobs", "good"] == found["chasqui_queue_waiting_jobs", '"q\\uoted"'] == 1
    assert found["chasqui_queue_readable", "good"] == 1
    assert [sample for sample in found.items() if sample[0][1] == "bad"] == [(("chasqui_queue_readable", "bad"), 0)]
    assert {queue for _, queue in found} == {"", "good", "bad", '"q\\uoted"'}


def test_a_server_that_is_away_frozen_and_back(tmp_path: Path) -> None:
    port = free_port()
    with ServerProcess(VALKEY) as server:
        server.stop()
        with exporter(server.url, tmp_path, port, "--timeout", "500ms") as process:
            process.next_json()
            assert not is_up(port)
            server.start()
            wait_for(lambda: is_up(port), "the server is back")
            server.pause()
            began = time.monotonic()
            assert scrape(port).keys() == {("chasqui_server_up", ""), ("chasqui_scrape_seconds", "")}
            assert time.monotonic() - began < 3
            server.resume()
            wait_for(lambda: is_up(port), "the server goes on")
            server.kill()
            assert not is_up(port)
            process.terminate()
            assert process.wait() == 0
    away = [line for line in process.errors if "chasqui_server_up is 0" in line]
    assert len(away) == 3, process.errors
    assert not [line for line in process.errors if "Traceback" in line]


def test_named_queues_alone_also_such_that_were_never_used(server: ServerProcess, tmp_path: Path) -> None:
    port = free_port()
    with SyncQueue("other", redis_url=server.url) as other:
        other.add("n", 1)
    with exporter(server.url, tmp_path, port, "-q", "a,b") as process:
        process.next_json()
        found = scrape(port)
    assert {queue for _, queue in found} == {"", "a", "b"}
    assert found["chasqui_queue_waiting_jobs", "a"] == 0


def test_what_it_refuses(cli: Callable[..., Said]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen at 127.0.0.1:{port}" in cli("exporter", "--port", str(port)).err
    said = cli("exporter", "-q", "a{b")
    assert (said.code, "braces" in said.err) == (2, True)
    said = cli("exporter", "--timeout", "5ms")
    assert (said.code, "at least 100ms" in said.err) == (2, True)


def test_a_wrong_password_ends_it_with_the_reason(tmp_path: Path) -> None:
    with ServerProcess(VALKEY, ("--requirepass", "secret")) as server, exporter(server.url, tmp_path, 9) as process:
        assert process.wait() == 4
    assert "requires a password" in "".join(process.errors)
