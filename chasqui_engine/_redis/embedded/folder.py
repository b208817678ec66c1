"""The folder of an embedded server: who may use it, where its socket is, and the locks in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chasqui_engine._redis.embedded.guard import SOCKET, USERS_LOCK
from chasqui_engine.values.errors import ConfigError, RedisError

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL_S = 0.005
# How long another process may take to start or stop the server. Longer than the guard waits for it.
_LOCK_TIMEOUT_S = 45.0
# The longest address of a unix socket: 107 bytes on Linux, 103 on macOS.
_SOCKET_PATH_MAX = 103


def real_folder(directory: str | os.PathLike[str]) -> str:
    """The resolved folder. A link that another user created in a shared folder could lead to another of our folders."""
    folder = Path(directory)
    if folder.is_symlink() and folder.lstat().st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{folder} is a link created by another user: name the folder itself")
    return os.path.realpath(folder)


def prepare_folder(folder: Path) -> None:
    # Parents too: a user who may write to one of them could replace the folder.
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise ConfigError(f"the folder {folder} belongs to another user, who could change what is in it: name another")
    if not found.st_mode & 0o077:
        return
    # Restricting a folder that others use (such as /tmp) would be worse than refusing it.
    if any(folder.iterdir()) and not (folder / USERS_LOCK).exists():
        raise ConfigError(f"the folder {folder} is open to other users and holds other files: name one for the queue")
    folder.chmod(0o700)


def open_file(path: Path, flags: int) -> int:
    """Opens a file of the server; links are not followed, so nothing outside the folder is written."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def socket_path(folder: Path) -> str:
    """The server's socket, through a short alias of the folder where its path is too long for an address."""
    path = os.fspath(folder / SOCKET)
    if len(os.fsencode(path)) <= _SOCKET_PATH_MAX:
        return path
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    for base in (tempfile.gettempdir(), "/tmp"):
        alias = Path(base, f"chasqui-{os.getuid()}", name)
        path = os.fspath(alias / SOCKET)
        if len(os.fsencode(path)) <= _SOCKET_PATH_MAX:
            _make_alias(alias, folder)
            return path
    raise ConfigError(f"the path of {folder} is too long for a unix socket, and so is that of the temporary folder")


def _make_alias(alias: Path, folder: Path) -> None:
    home = alias.parent
    home.mkdir(mode=0o700, exist_ok=True)
    found = home.lstat()
    # Any user can write to /tmp: a folder there with our name must belong to us, or it may lead elsewhere.
    if home.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(f"{home} is not a private folder of this user")
    fresh = alias.with_name(f"{alias.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder, target_is_directory=True)
    fresh.replace(alias)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    fd = open_file(path, os.O_RDWR)
    try:
        wait_for_lock(fd, fcntl.LOCK_EX, path.parent)
        yield
    finally:
        os.close(fd)


def wait_for_lock(fd: int, kind: int, folder: Path) -> None:
    deadline_s = time.monotonic() + _LOCK_TIMEOUT_S
    while not try_lock(fd, kind):
        if time.monotonic() > deadline_s:
            raise RedisError(f"timed out: another process is starting or stopping the embedded server in {folder}")
        time.sleep(_POLL_S)


def try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR)
    try:
        return not try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)
