"""The small process beside an embedded server: its parent, and the one that stops it when the last user is gone.

    python -I -S guard.py SERVER GUARD_FD keep|remove        in the server's folder

It runs as a file of its own, on a few standard modules, so that it starts in milliseconds. It inherits GUARD_FD, an
exclusive lock on `guard.lock` that shows that a guard is alive. It waits for an exclusive lock on
`users.lock`, of which every user process holds a share: it gets it when all of them have left or died. Holding it,
it stops the server, so that a newcomer waits until that is done and then starts a fresh one.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time

SOCKET = "valkey.sock"
CONFIG = "valkey.conf"
USERS_LOCK = "users.lock"

# A server that dies earlier than this failed to start; a later death is a crash, and it is restarted.
_MIN_LIFE_S = 1.0
_STOP_TIMEOUT_S = 30.0

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded here, because nothing should be loaded between fork and exec


class Guard:
    """Keeps one server running until it receives the order to stop."""

    def __init__(self, server: str) -> None:
        self.stopping = False
        self._server = server
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        """Return once the server was stopped, or does not start."""
        while True:
            with self._lock:
                if self.stopping:
                    return
                # The hook is safe: no other thread of this process holds a lock that it needs.
                child = subprocess.Popen([self._server, CONFIG], preexec_fn=_die_with_parent)  # noqa: PLW1509
                self._child = child
            started_s = time.monotonic()
            child.wait()
            if time.monotonic() - started_s < _MIN_LIFE_S:
                return

    def stop(self) -> None:
        with self._lock:
            self.stopping = True
            child = self._child
        if child is None:
            return
        child.terminate()
        try:
            child.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()


def _die_with_parent() -> None:
    """Have the kernel stop the server if this guard is killed (elsewhere than on Linux, see `_stop_orphan`)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop_orphan() -> None:
    """Stop a server whose guard was killed: two servers on the same files would corrupt them."""
    deadline_s = time.monotonic() + _STOP_TIMEOUT_S
    while time.monotonic() < deadline_s:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(SOCKET)
                client.sendall(b"SHUTDOWN\r\n")
            except OSError:
                return
        time.sleep(0.02)


def _stop_when_unused(guard: Guard, users_fd: int) -> None:
    fcntl.flock(users_fd, fcntl.LOCK_EX)
    guard.stop()


def _daemonize() -> None:
    """Double-fork, so that the process that started us never has to reap us."""
    if os.fork():
        os._exit(0)


def _remove_folder() -> None:
    import shutil  # imported late because it is slow to load

    shutil.rmtree(os.getcwd(), ignore_errors=True)


def main(server: str, guard_fd: int, at_end: str) -> None:
    _daemonize()
    users_fd = os.open(USERS_LOCK, os.O_RDWR)
    _stop_orphan()
    guard = Guard(server)
    threading.Thread(target=_stop_when_unused, args=(guard, users_fd), daemon=True).start()
    guard.run()
    if guard.stopping and at_end == "remove":
        _remove_folder()
    # In this order: a process that gets a share of users.lock now must see that no guard is working.
    os.close(guard_fd)
    os.close(users_fd)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
