"""What people read while a server is away, and why a server did not answer."""

from __future__ import annotations

import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import redis

from chasqui_engine import SyncQueue
from tests.cli.test_terminal import tmux  # noqa: F401 - a fixture for all tests here
from tests.servers import REDIS_7, VALKEY, ServerProcess, make_tls_files
from tests.support.processes import COMMAND, TASKS, Process, Terminal, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess(VALKEY, ("--appendonly", "yes")) as started:
        yield started


def test_watch_says_how_long_the_server_is_away_and_goes_on(server: ServerProcess, tmp_path: Path) -> None:
    with SyncQueue("mail", redis_url=server.url) as queue:
        queue.add_bulk([{"name": "n", "data": n} for n in range(37)])
    with Terminal(server.url, tmp_path, "watch", "--interval-ms", "200") as terminal:
        terminal.shows(" 37 ")
        server.stop()
        screen = terminal.shows("no answer from")
        assert " 37 " in screen
        assert "retrying" in screen
        server.start()
        terminal.shows("reconnected after")
        assert "no answer" not in terminal.screen
        assert "Traceback" not in terminal.screen


def test_watch_in_a_pipe_goes_on_after_a_restart(server: ServerProcess, tmp_path: Path) -> None:
    with Process(server.url, tmp_path, "watch", "mail", "--interval-ms", "100") as watching:
        assert watching.next_json()["queues"]
        server.stop()
        server.start()
        with redis.Redis.from_url(server.url) as raw:
            raw.xadd("{chasqui:mail}:stream", {"d": b"x"})
        while watching.next_json()["queues"][0]["counts"]["waiting"] != 1:
            pass
        watching.terminate()


def test_followed_events_go_on_after_a_restart(server: ServerProcess, tmp_path: Path) -> None:
    words = ("events", "mail", "--follow", "--from", "0")
    with Terminal(server.url, tmp_path, *words) as terminal, redis.Redis.from_url(server.url) as raw:
        raw.xadd("{chasqui:mail}:events", {"e": "completed", "id": "before"})
        terminal.shows("id=before")
        server.stop()
        terminal.shows("retrying")
        server.start()
        terminal.shows("reconnected to")
        raw.xadd("{chasqui:mail}:events", {"e": "completed", "id": "after"})
        screen = terminal.shows("id=after")
    assert screen.count("id=before") == 1


def test_a_workers_line_says_how_long_the_server_is_away(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    with Terminal(server.url, tmp_path, "worker", "tasks:handle", "-q", "mail") as terminal:
        terminal.shows("0 waiting")
        server.stop()
        terminal.shows("no answer from the server for")
        server.start()
        terminal.shows("0 waiting")
        terminal.press("C-c")
        assert terminal.exit_code() == 0


def inspect_error(cli: Callable[..., Any], url: str) -> str:
    said = cli("inspect", "--url", url)
    assert (said.code, said.out) == (4, "")
    [line] = said.err.splitlines()
    return str(line)


def test_a_wrong_login_or_database_has_its_own_sentence(cli: Callable[..., Any]) -> None:
    with ServerProcess(VALKEY, ("--requirepass", "secret")) as server:
        address = server.url.removeprefix("redis://").removesuffix("/0")
        assert f"the server at {address} requires a password. Next: put it in" in inspect_error(cli, server.url)
        wrong = inspect_error(cli, f"redis://:wrong@{address}/0")
        assert f"the server at {address} refuses user or password. Next: correct them" in wrong
        database = inspect_error(cli, f"redis://:secret@{address}/99")
        assert f"the server at {address} has no such database. Next: end the URL" in database
        tls = inspect_error(cli, f"rediss://:secret@{address}/0")
        assert f"the server at {address} did not answer the TLS handshake. Next: use redis://" in tls


def test_a_certificate_that_does_not_fit_has_its_own_sentence(cli: Callable[..., Any], tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    (tmp_path / "other").mkdir()
    other = make_tls_files(tmp_path / "other")
    with ServerProcess(REDIS_7, tls=files) as server:
        base = server.url.partition("?")[0]
        said = inspect_error(cli, f"{base}?ssl_ca_certs={other.authority}")
        assert "no TLS with the server at" in said
        assert "certificate" in said
        plain = inspect_error(cli, base.replace("rediss://", "redis://"))
        assert "closed the connection. Next: use rediss://" in plain


def test_a_server_that_loads_its_data_has_its_own_sentence() -> None:
    slowly = ("--enable-debug-command", "yes", "--key-load-delay", "20000", "--loading-process-events-interval-bytes")
    with ServerProcess(REDIS_7, (*slowly, "1024")) as server, redis.Redis.from_url(server.url) as raw:
        raw.execute_command("DEBUG", "POPULATE", 3_000, "key", 100)
        with socket.create_connection(("127.0.0.1", server.port)) as reloading:
            reloading.sendall(b"DEBUG RELOAD\r\n")
            wait_for(lambda: is_loading(raw), "the server to load")
            words = (*COMMAND, "inspect", "--url", server.url)
            done = subprocess.run(
                words, env=environment(server.url), capture_output=True, text=True, timeout=60, check=False
            )
        server.kill()
    assert (done.returncode, done.stdout) == (4, "")
    # The lines before it are the log's.
    assert "the server is still loading its data. Next: wait until" in done.stderr.splitlines()[-1]


def is_loading(raw: redis.Redis) -> bool:
    try:
        raw.ping()
    except redis.BusyLoadingError:
        return True
    return False


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("redis://127.0.0.1:1", "nothing listens at 127.0.0.1:1"),
        ("redis://nosuchhost.invalid", "the host of nosuchhost.invalid:6379 is unknown"),
    ],
)
def test_a_wrong_address_has_its_own_sentence(cli: Callable[..., Any], url: str, sentence: str) -> None:
    assert sentence in inspect_error(cli, url)
