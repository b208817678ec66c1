"""Servers that others know the place of: a Sentinel's master, the owner of a Cluster's slot."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from redis.asyncio.connection import AbstractConnection, Connection
from redis.crc import key_slot
from redis.exceptions import ConnectionError as ClientConnectionError
from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.client import sentinel_watch
from chasqui_engine._redis.client.protocol import RedisProtocol
from chasqui_engine._redis.client.sentinel_watch import SentinelWatch
from chasqui_engine._redis.client.server import FetchCredentials, Server
from chasqui_engine._redis.client.urls import HostPort, UrlParts, split_url
from chasqui_engine.errors import ConfigError, error_text

_NEWS_WITHIN_S = 1.0
"""How long a connect waits for the end of a failover before it says that there is one."""


class SentinelMaster:
    """The master that the sentinels name; asked again at every connect, and left as soon as they replace it."""

    def __init__(self, url: str, fetch: FetchCredentials | None) -> None:
        self._url = url
        parts = split_url(url, 26379)
        service, _, db = parts.path.partition("/")
        if not service:
            raise ConfigError("redis_url for Sentinel needs the service name: redis+sentinel://host:port/service/db")
        given = parse_qsl(parts.query, keep_blank_values=True)
        own = {key: value for key, value in given if key.startswith("sentinel_")}
        query = urlencode([pair for pair in given if pair[0] not in own])
        self._master = Server(parts.at(parts.places[0], db, query), fetch)
        self._sentinels = _sentinel_client(parts, query, own)
        self._places = list(parts.places)
        self._service = unquote(service)
        self._watch: SentinelWatch | None = None
        self.address = f"sentinel {self._service} at {_listed(parts.places)}"
        self.database = self._master.database

    async def open(self, client_name: str) -> AbstractConnection:
        watch = self._watch
        if watch is None:
            self._watch = watch = sentinel_watch.join(self._url, self._sentinels, self._places, self._service)
        place = await self._find()
        if not watch.is_safe(place):
            await watch.wait_for_news(_NEWS_WITHIN_S)
            raise ClientConnectionError("the sentinels are replacing the master")
        return await self._master.open_at(client_name, place)

    def opened(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Has the connection left when its master is replaced."""
        if self._watch is not None and isinstance(connection, Connection):
            self._watch.opened(wire, HostPort(connection.host, int(connection.port)))

    async def close(self) -> None:
        """Listens to the sentinels no more."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.leave()

    async def _find(self) -> HostPort:
        problems = []
        for place in tuple(self._places):
            try:
                found = await self._sentinels.ask(place, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            except (ClientError, OSError) as err:
                problems.append(f"{place.host}:{place.port}: {error_text(err)}")
            else:
                if found:
                    return HostPort(found[0].decode(), int(found[1]))
                problems.append(f"{place.host}:{place.port} knows no master of that name")
            # Who does not help is asked last the next time.
            self._places.remove(place)
            self._places.append(place)
        raise ClientConnectionError(f"no sentinel names a master: {'; '.join(problems)}")


def _sentinel_client(parts: UrlParts, query: str, given: dict[str, str]) -> Server:
    """To the sentinels goes the same way as to the master, but for what `sentinel_…` options say."""
    tls = given.pop("sentinel_tls", "")
    scheme = {"": parts.scheme, "true": "rediss", "false": "redis"}.get(tls.lower())
    login = {key.removeprefix("sentinel_"): given.pop(key, None) for key in ("sentinel_username", "sentinel_password")}
    if given or scheme is None:
        raise ConfigError("redis_url takes sentinel_username, sentinel_password and sentinel_tls=true|false")
    wanted = ("ssl_", "socket_") if scheme == "rediss" else ("socket_",)
    options = urlencode([pair for pair in parse_qsl(query) if pair[0].startswith(wanted)])
    return Server(parts._replace(scheme=scheme, login="").at(parts.places[0], query=options), None, **login)


class ClusterSlot:
    """The node of a Cluster that owns a key's slot; looked up again at every connect."""

    def __init__(self, url: str, fetch: FetchCredentials | None, key: str) -> None:
        parts = split_url(url, 6379)
        if parts.path not in ("", "0"):
            raise ConfigError("redis_url: a Cluster has no databases but 0")
        self._node = Server(parts.at(parts.places[0], query=parts.query), fetch)
        self._given = parts.places
        self._places = list(parts.places)
        self._slot = key_slot(key.encode())
        self.address = f"cluster at {_listed(parts.places)}"
        self.database = 0

    async def open(self, client_name: str) -> AbstractConnection:
        return await self._node.open_at(client_name, await self._find())

    def opened(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Nothing to do: a node that loses the slot says so itself, and takes no writes meanwhile."""

    async def close(self) -> None:
        """Holds nothing."""

    async def _find(self) -> HostPort:
        problems = []
        for place in tuple(self._places):
            # Another one is asked first the next time: this one may be cut off from the rest and not know it.
            self._places.remove(place)
            self._places.append(place)
            try:
                ranges = await self._node.ask(place, "CLUSTER", "SLOTS")
            except (ClientError, OSError) as err:
                problems.append(f"{place.host}:{place.port}: {error_text(err)}")
                continue
            self._learn(ranges, place)
            for first, last, owner, *_replicas in ranges:
                if first <= self._slot <= last:
                    return _node_place(owner, place)
            problems.append(f"{place.host}:{place.port} knows nobody who serves slot {self._slot}")
        raise ClientConnectionError(f"no node of the cluster helps: {'; '.join(problems)}")

    def _learn(self, ranges: list[Any], asked: HostPort) -> None:
        """Keeps the nodes to ask the next time: those in the URL may be gone one day."""
        nodes = {_node_place(node, asked) for _first, _last, *nodes in ranges for node in nodes}
        known = {*nodes, *self._given}
        self._places = [place for place in self._places if place in known]
        self._places[:0] = known.difference(self._places)


def _node_place(node: list[Any], asked: HostPort) -> HostPort:
    # A node that does not know its own name means the one under which it was asked.
    host = node[0].decode() if node[0] else ""
    return HostPort(asked.host if host in ("", "?") else host, int(node[1]))


def _listed(places: tuple[HostPort, ...]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in places)
