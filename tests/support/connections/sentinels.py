"""A master with a replica, watched by real sentinels."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import redis

from tests.servers import ServerProcess, find, free_port
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE = "main"
_TIMEOUT_S = 30.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for servers, which may refuse to answer meanwhile."""

    def is_so() -> bool:
        with contextlib.suppress(redis.RedisError):
            return condition()
        return False

    wait_for(is_so, what, timeout_s=_TIMEOUT_S)


class SentinelProcess:
    """One `redis-server --sentinel`."""

    def __init__(self, kind: str, master_port: int, quorum: int, password: str) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="chasqui-sentinel-"))
        config = self._folder / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self._folder}\nlogfile {self._folder}/sentinel.log\n"
            f"requirepass {password}\nsentinel sentinel-pass {password}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {master_port} {quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} 300\n"
            f"sentinel failover-timeout {SERVICE} 3000\n"
        )
        self._process = subprocess.Popen(
            [find(kind), str(config), "--sentinel"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self._client = redis.Redis(port=self.port, password=password, protocol=2)

    def master(self) -> dict[str, str]:
        """What it knows about the master."""
        flat = [field.decode() for field in self._client.execute_command("SENTINEL", "MASTER", SERVICE)]
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def fail_over(self) -> bool:
        """Asks for a failover while the master lives; an error while one is under way."""
        return bool(self._client.execute_command("SENTINEL", "FAILOVER", SERVICE))

    def kill(self) -> None:
        self._client.close()
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class Watched:
    """`with Watched("redis-7.0") as watched: … watched.url …`: master, replica, and sentinels that know each other."""

    password = "sentinels-own"

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._stack = contextlib.ExitStack()

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{places}/{SERVICE}/0?sentinel_password={self.password}"

    def __enter__(self) -> Self:
        with self._stack:
            self.master = self._stack.enter_context(ServerProcess(self._kind))
            replica_args = ("--replicaof", "127.0.0.1", str(self.master.port), "--repl-diskless-sync-delay", "0")
            with redis.Redis(port=self.master.port) as client:
                client.config_set("repl-diskless-sync-delay", 0)
                self.replica = self._stack.enter_context(ServerProcess(self._kind, replica_args))
                wait_until(lambda: client.info("replication")["connected_slaves"] == 1, "the replica")
                wait_until(lambda: client.info("replication")["slave0"]["state"] == "online", "a replica in step")
            self.sentinels = [SentinelProcess(self._kind, self.master.port, 2, self.password) for _ in range(3)]
            for sentinel in self.sentinels:
                self._stack.callback(sentinel.close)
            for sentinel in self.sentinels:
                wait_until(lambda sentinel=sentinel: _knows_all(sentinel.master()), "sentinels that know each other")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


def _knows_all(master: dict[str, str]) -> bool:
    return master["num-slaves"] == "1" and master["num-other-sentinels"] == "2"
