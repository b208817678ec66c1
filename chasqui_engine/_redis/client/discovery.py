"""Servers whose address others know: a Sentinel's master, the owner of a Cluster slot."""

from __future__ import annotations

from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection
from redis.crc import key_slot
from redis.exceptions import ConnectionError as ClientConnectionError
from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.client import sentinel_watch
from chasqui_engine._redis.client.protocol import RedisProtocol
from chasqui_engine._redis.client.sentinel_watch import SentinelWatch
from chasqui_engine._redis.client.server import FetchCredentials, Server
from chasqui_engine._redis.client.url_plan import plan_cluster, plan_sentinel
from chasqui_engine._redis.client.urls import HostPort
from chasqui_engine.values.errors import error_text

_NEWS_WITHIN_S = 1.0
"""How long a connect waits for a failover to end before it raises."""


class SentinelMaster:
    """The master that the sentinels name; they are asked at every connect, and a replaced master is left at once."""

    def __init__(self, url: str, fetch: FetchCredentials | None) -> None:
        self._url = url
        plan = plan_sentinel(url)
        self._master = Server(plan.master, fetch)
        self._sentinels = Server(plan.sentinels)
        self._places = list(plan.places)
        self._service = plan.service
        self._watch: SentinelWatch | None = None
        self.address = plan.address
        self.database = plan.master.database

    async def open(self, client_name: str) -> AbstractConnection:
        watch = self._watch
        if watch is None:
            self._watch = watch = sentinel_watch.join(self._url, self._sentinels, self._places, self._service)
        place = await self._find()
        if not watch.is_safe(place):
            await watch.wait_for_news(_NEWS_WITHIN_S)
            raise ClientConnectionError("the sentinels are replacing the master")
        return await self._master.open_at(client_name, place)

    def on_open(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Closes the connection when its master is replaced."""
        if self._watch is not None and isinstance(connection, Connection):
            self._watch.on_open(wire, HostPort(connection.host, int(connection.port)))

    async def close(self) -> None:
        """Stops listening to the sentinels."""
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
                problems.append(f"{place.host}:{place.port} has no master of that name")
            # A sentinel that did not help is asked last the next time.
            self._places.remove(place)
            self._places.append(place)
        raise ClientConnectionError(f"no sentinel names a master: {'; '.join(problems)}")


class ClusterSlot:
    """The Cluster node that owns a key's slot; looked up at every connect."""

    def __init__(self, url: str, fetch: FetchCredentials | None, key: str) -> None:
        plan = plan_cluster(url)
        self._node = Server(plan.node, fetch)
        self._given = plan.places
        self._places = list(plan.places)
        self._slot = key_slot(key.encode())
        self.address = plan.address
        self.database = 0

    async def open(self, client_name: str) -> AbstractConnection:
        return await self._node.open_at(client_name, await self._find())

    def on_open(self, connection: AbstractConnection, wire: RedisProtocol) -> None:
        """Nothing to do: a node that loses the slot redirects clients and accepts no writes."""

    async def close(self) -> None:
        """Holds nothing."""

    async def _find(self) -> HostPort:
        problems = []
        for place in tuple(self._places):
            # The next time another node is asked first: this one may be partitioned from the others.
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
            problems.append(f"{place.host}:{place.port} has no owner for slot {self._slot}")
        raise ClientConnectionError(f"no node of the cluster gave the owner of the slot: {'; '.join(problems)}")

    def _learn(self, ranges: list[Any], asked: HostPort) -> None:
        """Remembers the nodes to ask the next time: those in the URL may disappear."""
        nodes = {_node_place(node, asked) for _first, _last, *nodes in ranges for node in nodes}
        known = {*nodes, *self._given}
        self._places = [place for place in self._places if place in known]
        self._places[:0] = known.difference(self._places)


def _node_place(node: list[Any], asked: HostPort) -> HostPort:
    # A node that does not know its own address means the one at which it was asked.
    host = node[0].decode() if node[0] else ""
    return HostPort(asked.host if host in ("", "?") else host, int(node[1]))
