"""Where a URL leads, for blocking connections: the URLs of `endpoints.py`, opened by the client's blocking half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.crc import key_slot
from redis.exceptions import ConnectionError as ClientConnectionError
from redis.exceptions import RedisError as ClientError
from redis.retry import Retry
from redis.sentinel import Sentinel

from chasqui_engine._redis.blocking.failover import SentinelListener
from chasqui_engine._redis.client.server import without_introduction
from chasqui_engine._redis.client.url_plan import (
    CONNECT_TIMEOUT_S,
    ServerPlan,
    plan_cluster,
    plan_sentinel,
    plan_server,
)
from chasqui_engine._redis.client.urls import SCHEMES, HostPort, resolve_url, scheme_of
from chasqui_engine.runtime.posix import need_posix
from chasqui_engine.values.errors import ConfigError, error_text

if TYPE_CHECKING:
    from chasqui_engine._redis.embedded.server import EmbeddedServer

_CONNECTION_CLASSES: dict[str, Any] = {"redis": Connection, "rediss": SSLConnection, "unix": UnixDomainSocketConnection}


class BlockingEndpoint(Protocol):
    """Opens blocking connections to the server that currently holds the queue."""

    address: str
    """The address for people, without a password."""

    def open(self, client_name: str) -> Any:
        """A connection of the redis client, after its handshake."""

    def has_moved(self) -> bool:
        """Whether the server of the last connection is being replaced or was replaced; never blocks."""

    def close(self) -> None:
        """Releases the endpoint's resources."""


class _Server:
    """One server, by TCP, TLS or unix socket."""

    def __init__(self, plan: ServerPlan) -> None:
        self._connection_class = _CONNECTION_CLASSES[plan.scheme]
        self._options = {**plan.options, "retry": Retry(NoBackoff(), 0)}  # the connection decides when to retry
        self.address = plan.address

    def open(self, client_name: str) -> Any:
        return self._open({"client_name": client_name})

    def has_moved(self) -> bool:
        return False

    def open_at(self, client_name: str, place: HostPort) -> Any:
        """A connection to the same kind of server at another address."""
        return self._open({"client_name": client_name, "host": place.host, "port": place.port})

    def close(self) -> None:
        """Holds nothing."""

    def _open(self, further: dict[str, Any]) -> Any:
        connection = without_introduction(self._connection_class(**{**self._options, **further}))
        connection.connect()
        return connection


class _SentinelMaster:
    """The master that the sentinels name; they are asked at every connect, and a replaced master is left at once."""

    def __init__(self, url: str) -> None:
        plan = plan_sentinel(url)
        self._server = _Server(plan.master)
        login = {name: value for name, value in plan.sentinels.options.items() if name not in ("host", "port")}
        self._sentinel = Sentinel(
            plan.places,
            sentinel_kwargs={
                "socket_timeout": CONNECT_TIMEOUT_S,
                **login,
                "retry": Retry(NoBackoff(), 0),
                "ssl": plan.sentinels.scheme == "rediss",
            },
        )
        self._service = plan.service
        self._listener = SentinelListener(self._sentinel.sentinels, self._service)
        self._place: HostPort
        self.address = plan.address

    def open(self, client_name: str) -> Any:
        self._listener.listen()
        self._place = HostPort(*self._sentinel.discover_master(self._service))
        if self.has_moved():
            raise ClientConnectionError("the sentinels are replacing the master")
        return self._server.open_at(client_name, self._place)

    def has_moved(self) -> bool:
        return self._listener.is_leaving(self._place)

    def close(self) -> None:
        self._listener.close()
        for client in self._sentinel.sentinels:
            client.close()


class _ClusterSlot:
    """The Cluster node that owns a key's slot; looked up at every connect."""

    def __init__(self, url: str, key: str) -> None:
        plan = plan_cluster(url)
        self._node = _Server(plan.node)
        self._places = plan.places
        self._slot = key_slot(key.encode())
        self.address = plan.address

    def open(self, client_name: str) -> Any:
        return self._node.open_at(client_name, self._owner(client_name))

    def has_moved(self) -> bool:
        return False

    def close(self) -> None:
        """Holds nothing."""

    def _owner(self, client_name: str) -> HostPort:
        problems = []
        for place in self._places:
            try:
                connection = self._node.open_at(client_name, place)
                connection.send_command("CLUSTER", "SLOTS")
                ranges = connection.read_response()
                connection.disconnect()
            except (ClientError, OSError) as err:
                problems.append(f"{place.host}:{place.port}: {error_text(err)}")
                continue
            for first, last, owner, *_replicas in ranges:
                if first <= self._slot <= last:
                    return HostPort(owner[0].decode() or place.host, int(owner[1]))
            problems.append(f"{place.host}:{place.port} has no owner for slot {self._slot}")
        raise ClientConnectionError(f"no node of the cluster gave the owner of the slot: {'; '.join(problems)}")


class _Embedded:
    """A private server on a unix socket, started by the first process that uses it."""

    def __init__(self, url: str) -> None:
        need_posix("embedded://")
        from chasqui_engine._redis.embedded import server

        self._address = server.parse_url(url)
        if self._address.directory is None:
            raise ConfigError(
                "embedded:// without a folder is private to one process; name a folder: embedded:///a/folder"
            )
        self._held: EmbeddedServer | None = None
        self.address = f"embedded server in {self._address.directory}"

    def open(self, client_name: str) -> Any:
        from chasqui_engine._redis.embedded import server

        # Claimed at every connect, which restarts a server that has died.
        before = self._held
        self._held = server.acquire_blocking(self._address.directory, appendfsync=self._address.appendfsync)
        if before is not None:
            before.release()
        return _Server(plan_server(f"unix://{quote(self._held.socket_path)}")).open(client_name)

    def has_moved(self) -> bool:
        return False

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()


def blocking_endpoint_for(url: str | None, key: str) -> BlockingEndpoint:
    """The endpoint for commands on `key`."""
    url = resolve_url(url)
    scheme = scheme_of(url)
    if scheme == "embedded":
        return _Embedded(url)
    if scheme in ("redis", "rediss", "unix"):
        return _Server(plan_server(url))
    if scheme in ("redis+sentinel", "rediss+sentinel"):
        return _SentinelMaster(url)
    if scheme in ("redis+cluster", "rediss+cluster"):
        return _ClusterSlot(url, key)
    raise ConfigError(f"redis_url must begin with one of {SCHEMES}")
