"""Where a URL leads, for blocking connections: the URLs of `endpoints.py`, opened by the client's blocking half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode

from redis import ConnectionPool
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import ConnectionError as ClientConnectionError
from redis.exceptions import RedisError as ClientError
from redis.retry import Retry
from redis.sentinel import Sentinel

from chasqui_engine._redis.blocking.failover import SentinelListener
from chasqui_engine._redis.client.server import unintroduced
from chasqui_engine._redis.client.urls import SCHEMES, HostPort, resolve_url, scheme_of, split_url
from chasqui_engine.errors import ConfigError, error_text
from chasqui_engine.posix import need_posix

if TYPE_CHECKING:
    from chasqui_engine._redis.embedded.server import EmbeddedServer

_CONNECT_TIMEOUT_S = 5.0


class BlockingEndpoint(Protocol):
    """Opens blocking connections to whoever holds the queue right now."""

    address: str
    """For people: never a password in it."""

    def open(self, client_name: str) -> Any:
        """A connection of the client's that has shaken hands."""

    def has_moved(self) -> bool:
        """Whether the server of the last connection is about to be replaced, or has been; never waits."""

    def close(self) -> None:
        """Gives back what the endpoint holds."""


class _Server:
    """One server, by TCP, TLS or unix socket."""

    def __init__(self, url: str) -> None:
        try:
            pool = ConnectionPool.from_url(url)
            self._connection_class = pool.connection_class
            self._options: dict[str, Any] = {**_defaults(url), **pool.connection_kwargs}
            self._connection_class(**self._options)
        except (ValueError, TypeError, ClientError):
            # What the client says may quote the URL, and that may hold a password.
            raise ConfigError("url has an option that is malformed or that the redis client does not take") from None
        self.address = self._options.get("path") or f"{self._options['host']}:{self._options['port']}"

    def open(self, client_name: str) -> Any:
        return self._open({"client_name": client_name})

    def has_moved(self) -> bool:
        return False

    def open_at(self, client_name: str, place: HostPort) -> Any:
        """A connection to the same kind of server at another place."""
        return self._open({"client_name": client_name, "host": place.host, "port": place.port})

    def close(self) -> None:
        """Holds nothing."""

    def _open(self, further: dict[str, Any]) -> Any:
        connection = unintroduced(self._connection_class(**{**self._options, **further}))
        connection.connect()
        return connection


def _defaults(url: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "protocol": 2,  # replies of one shape from every server
        "socket_connect_timeout": _CONNECT_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),  # the connection decides when to try again
    }
    if scheme_of(url) != "unix":
        options |= {"host": "localhost", "port": 6379, "socket_keepalive": True}
    if scheme_of(url) == "rediss":
        options["ssl_check_hostname"] = "ssl_cert_reqs=none" not in url
    return options


class _SentinelMaster:
    """The master that the sentinels name; asked again at every connect, and left as soon as they replace it."""

    def __init__(self, url: str) -> None:
        parts = split_url(url, 26379)
        service, _, db = parts.path.partition("/")
        if not service:
            raise ConfigError("url for Sentinel needs the service name: redis+sentinel://host:port/service/db")
        given = parse_qsl(parts.query, keep_blank_values=True)
        own = {key.removeprefix("sentinel_"): value for key, value in given if key.startswith("sentinel_")}
        query = urlencode([pair for pair in given if not pair[0].startswith("sentinel_")])
        tls = own.pop("tls", "true" if parts.scheme == "rediss" else "false") == "true"
        self._server = _Server(parts.at(parts.places[0], db, query))
        self._sentinel = Sentinel(
            [(place.host, place.port) for place in parts.places],
            sentinel_kwargs={
                "socket_timeout": _CONNECT_TIMEOUT_S,
                "protocol": 2,
                "retry": Retry(NoBackoff(), 0),
                **({"ssl": True} if tls else {}),
                **own,
            },
        )
        self._service = unquote(service)
        self._listener = SentinelListener(self._sentinel.sentinels, self._service)
        self._place: HostPort
        self.address = f"sentinel {self._service} at {_listed(parts.places)}"

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
    """The node of a Cluster that owns a key's slot; looked up again at every connect."""

    def __init__(self, url: str, key: str) -> None:
        parts = split_url(url, 6379)
        self._node = _Server(parts.at(parts.places[0], query=parts.query))
        self._places = parts.places
        self._slot = key_slot(key.encode())
        self.address = f"cluster at {_listed(parts.places)}"

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
            problems.append(f"{place.host}:{place.port} knows nobody who serves slot {self._slot}")
        raise ClientConnectionError(f"no node of the cluster helps: {'; '.join(problems)}")


def _listed(places: tuple[HostPort, ...]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in places)


class _Embedded:
    """A private server on a unix socket, started by whoever comes first."""

    def __init__(self, url: str) -> None:
        need_posix("embedded://")
        from chasqui_engine._redis.embedded import server

        self._address = server.parse_url(url)
        if self._address.directory is None:
            raise ConfigError(
                "embedded:// without a folder is one process's own server; name one: embedded:///a/folder"
            )
        self._held: EmbeddedServer | None = None
        self.address = f"embedded server in {self._address.directory}"

    def open(self, client_name: str) -> Any:
        from chasqui_engine._redis.embedded import server

        # Claimed anew at every connect: that brings back a server that has died.
        before = self._held
        self._held = server.acquire_blocking(self._address.directory, appendfsync=self._address.appendfsync)
        if before is not None:
            before.release()
        return _Server(f"unix://{quote(self._held.socket_path)}").open(client_name)

    def has_moved(self) -> bool:
        return False

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()


def blocking_endpoint_for(url: str | None, key: str) -> BlockingEndpoint:
    """Where the commands on `key` go."""
    url = resolve_url(url)
    scheme = scheme_of(url)
    if scheme == "embedded":
        return _Embedded(url)
    if scheme in ("redis", "rediss", "unix"):
        return _Server(url)
    if scheme in ("redis+sentinel", "rediss+sentinel"):
        return _SentinelMaster(url)
    if scheme in ("redis+cluster", "rediss+cluster"):
        return _ClusterSlot(url, key)
    raise ConfigError(f"url must begin with one of {SCHEMES}")
