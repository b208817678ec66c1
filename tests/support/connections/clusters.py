"""A real Cluster of three nodes, of which one slot can be moved about."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self

import redis

from tests.servers import REDIS_6, ServerProcess, free_port
from tests.support.connections.sentinels import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLOTS = 16384
_NODES = 3
_HIGHEST = 65535
_BUS_OFFSET = 10_000


class Cluster:
    """`with Cluster("redis-7.0") as cluster: … cluster.url …`."""

    def __init__(self, kind: str, *extra_args: str) -> None:
        self._kind = kind
        self._extra_args = extra_args
        self._stack = contextlib.ExitStack()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def __enter__(self) -> Self:
        with self._stack:
            self.nodes = [self._start() for _ in range(_NODES)]
            self.clients = [self._stack.enter_context(redis.Redis(port=node.port)) for node in self.nodes]
            for number, client in enumerate(self.clients):
                first, end = _SLOTS * number // _NODES, _SLOTS * (number + 1) // _NODES
                client.execute_command("CLUSTER ADDSLOTS", *range(first, end))
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            for node, bus in zip(self.nodes[1:], self._buses[1:], strict=True):
                self.clients[0].execute_command("CLUSTER MEET", "127.0.0.1", node.port, bus)
            for client in self.clients:
                wait_until(lambda client=client: _complete(client), "a cluster that is complete")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def owner(self, slot: int) -> int:
        """The number of the node that serves it."""
        for first, last, node, *_replicas in self._slots():
            if first <= slot <= last:
                return [node.port for node in self.nodes].index(node[1])
        raise AssertionError(f"nobody serves slot {slot}")

    @contextlib.contextmanager
    def moving(self, slot: int) -> Iterator[int]:
        """The slot is on its way to another node during the block, and there after it; gives that node's number."""
        source = self.owner(slot)
        target = (source + 1) % _NODES
        ids = [self._id(number) for number in range(_NODES)]
        self.clients[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
        self.clients[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
        yield target
        while keys := self.clients[source].execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
            self.clients[source].execute_command(
                "MIGRATE", "127.0.0.1", self.nodes[target].port, "", 0, 5000, "KEYS", *keys
            )
        for number in (target, source, (target + 1) % _NODES):
            self.clients[number].execute_command("CLUSTER SETSLOT", slot, "NODE", ids[target])

    def _start(self) -> ServerProcess:
        # The cluster's own port is the port plus 10000, which may be more than there are; later versions can be told.
        port = free_port_up_to(_HIGHEST - _BUS_OFFSET) if self._kind == REDIS_6 else 0
        bus = port + _BUS_OFFSET if self._kind == REDIS_6 else free_port()
        self._buses = [*getattr(self, "_buses", []), bus]
        args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
        args += [] if self._kind == REDIS_6 else ["--cluster-port", str(bus)]
        return self._stack.enter_context(ServerProcess(self._kind, (*args, *self._extra_args), port=port))

    def _slots(self) -> list[Any]:
        # Without the client's own reading of the reply, which differs between its versions.
        connection = redis.Connection(port=self.nodes[0].port, protocol=2)
        try:
            connection.send_command("CLUSTER", "SLOTS")
            slots: list[Any] = connection.read_response()
            return slots
        finally:
            connection.disconnect()

    def _id(self, number: int) -> str:
        return str(self.clients[number].execute_command("CLUSTER MYID").decode())


def free_port_up_to(highest: int) -> int:
    while (port := free_port()) > highest:
        continue
    return port


def _complete(client: redis.Redis) -> bool:
    facts = client.execute_command("CLUSTER INFO")
    text = facts if isinstance(facts, dict) else dict(line.split(":") for line in facts.decode().split())
    return text["cluster_state"] == "ok" and int(text["cluster_known_nodes"]) == _NODES
