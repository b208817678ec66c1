"""One server of each kind for the whole test session, started when the first test asks for it."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from typing import TYPE_CHECKING

import redis

from tests.servers.find import KINDS, REDIS_6, REDIS_7, REDIS_8, VALKEY, Unavailable, chosen, find
from tests.servers.process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

# The server that CHASQUI_TEST_REDIS_URL names, whatever it is.
GIVEN = "given"

_IMAGES = {VALKEY: "valkey/valkey:9.1", REDIS_6: "redis:6.2", REDIS_7: "redis:7.0", REDIS_8: "redis:8.6"}


class SessionServers:
    """Knows which kinds can be had, and runs those that are asked for until `close`."""

    def __init__(self) -> None:
        self.missing: dict[str, Unavailable] = {}
        self.available: list[str] = []
        self._urls: dict[str, str] = {}
        self._closers: list[Callable[[], object]] = []
        for kind in KINDS:
            try:
                _check(kind)
            except Unavailable as reason:
                self.missing[kind] = reason
            else:
                self.available.append(kind)
        if given := os.environ.get("CHASQUI_TEST_REDIS_URL"):
            self.available.append(GIVEN)
            self._urls[GIVEN] = given

    def url(self, kind: str) -> str:
        if kind in self.missing:
            raise self.missing[kind]
        if kind not in self._urls:
            self._urls[kind] = self._start(kind)
        return self._urls[kind]

    def running(self) -> dict[str, str]:
        """The version that each server in use says it is."""
        return {kind: _version(url) for kind, url in self._urls.items()}

    def close(self) -> None:
        while self._closers:
            self._closers.pop()()

    def _start(self, kind: str) -> str:
        try:
            find(kind)
        except Unavailable:
            return self._start_container(kind)
        server = ServerProcess(kind)
        self._closers.append(server.close)
        return server.start().url

    def _start_container(self, kind: str) -> str:
        from testcontainers.redis import RedisContainer

        container = RedisContainer(_IMAGES[kind])
        self._closers.append(container.stop)
        container.start()
        return f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"


def _check(kind: str) -> None:
    try:
        find(kind)
    except Unavailable:
        if kind not in chosen() or not _docker_answers():
            raise


@functools.cache
def _docker_answers() -> bool:
    import docker
    from docker.errors import DockerException

    if not _docker_socket_open():
        return False
    try:
        with contextlib.closing(docker.from_env(timeout=2)) as client:
            return bool(client.ping())
    except (DockerException, OSError):
        return False


def _docker_socket_open() -> bool:
    """Whether it is worth asking: the docker client leaves sockets open when nobody answers."""
    scheme, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    if scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def _version(url: str) -> str:
    try:
        with redis.Redis.from_url(url) as client:
            info = client.info("server")
    except redis.RedisError as error:
        return f"does not answer any more: {error}"
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}"
