"""Faults of every kind, chosen by chance, against a server, its workers and the network between them."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from typing import TYPE_CHECKING

import redis.asyncio

from chasqui_engine import Queue, RedisError
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.waiting import until

if TYPE_CHECKING:
    import subprocess

    from tests.servers import ServerProcess
    from tests.support.connections.proxy import Proxy
    from tests.support.faults.fleet import Fleet

HARMLESS = {"scripts forgotten", "server frozen", "server full", "clients paused", "network slow"}
"""After these, nothing has a reason to run again."""


class Chaos:
    """Breaks something every few seconds, and mends what does not mend itself."""

    def __init__(self, server: ServerProcess, proxy: Proxy, queue: str, fleet: Fleet, workers: int, seed: int) -> None:
        self.server = server
        self.proxy = proxy
        self.fleet = fleet
        self.done: Counter[str] = Counter()
        self._stream = QueueKeys(queue).stream
        self._workers = workers
        self._chance = random.Random(seed)
        self._kinds = (
            self.kill_a_worker,
            self.kill_a_worker,
            self.stop_a_worker,
            self.freeze_a_worker,
            self.kill_the_server,
            self.restart_the_server,
            self.freeze_the_server,
            self.fill_the_server,
            self.delete_the_group,
            self.pause_clients,
            self.kill_connections,
            self.flap,
            self.forget_scripts,
            self.cut_the_network,
            self.half_open_the_network,
            self.silence_the_network,
            self.slow_the_network,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop."""
        while not stop.is_set():
            await self._chance.choice(self._kinds)()
            await asyncio.sleep(self._chance.uniform(0.5, 4))

    def full_strength(self) -> None:
        """As many workers as there should be."""
        self.fleet.at_strength(self._workers)

    def _victim(self) -> subprocess.Popen[bytes]:
        self.full_strength()
        return self._chance.choice(self.fleet.workers)

    async def kill_a_worker(self) -> None:
        self.done["worker killed"] += 1
        await asyncio.to_thread(self.fleet.kill, self._victim())
        self.full_strength()

    async def stop_a_worker(self) -> None:
        self.done["worker stopped (SIGTERM)"] += 1
        victim = self._victim()
        victim.send_signal(signal.SIGTERM)
        await asyncio.to_thread(victim.wait, 60)
        self.full_strength()

    async def freeze_a_worker(self) -> None:
        self.done["worker frozen (SIGSTOP)"] += 1
        victim = self._victim()
        victim.send_signal(signal.SIGSTOP)
        await self._a_while(0.5, 4)
        victim.send_signal(signal.SIGCONT)

    async def kill_the_server(self) -> None:
        self.done["server killed"] += 1
        await asyncio.to_thread(self.server.kill)
        await self._a_while(0, 2)
        await asyncio.to_thread(self.server.start)

    async def restart_the_server(self) -> None:
        self.done["server restarted"] += 1
        await asyncio.to_thread(self.server.restart)

    async def freeze_the_server(self) -> None:
        self.done["server frozen"] += 1
        self.server.pause()
        await self._a_while(0.2, 2)
        self.server.resume()

    async def fill_the_server(self) -> None:
        self.done["server full"] += 1
        await self._tell("CONFIG", "SET", "maxmemory", "1")
        await self._a_while(0.2, 2)
        await self._tell("CONFIG", "SET", "maxmemory", "0")

    async def delete_the_group(self) -> None:
        self.done["group deleted"] += 1
        await self._tell("XGROUP", "DESTROY", self._stream, "default")

    async def pause_clients(self) -> None:
        self.done["clients paused"] += 1
        await self._tell("CLIENT", "PAUSE", "1000", "ALL")

    async def kill_connections(self) -> None:
        self.done["connections killed"] += 1
        await self._tell("CLIENT", "KILL", "TYPE", "normal")

    async def flap(self) -> None:
        self.done["connections flapping"] += 1
        for _ in range(5):
            await self._tell("CLIENT", "KILL", "TYPE", "normal")
            await asyncio.sleep(0.1)

    async def forget_scripts(self) -> None:
        self.done["scripts forgotten"] += 1
        await self._tell("SCRIPT", "FLUSH")

    async def cut_the_network(self) -> None:
        self.done["network cut"] += 1
        self.proxy.cut()

    async def half_open_the_network(self) -> None:
        """What is asked arrives, what is answered does not; then the connections are gone."""
        self.done["network half open"] += 1
        self.proxy.hold_replies()
        await self._a_while(0.1, 3)
        self.proxy.cut()

    async def silence_the_network(self) -> None:
        self.done["network silent"] += 1
        self.proxy.stall()
        await self._a_while(0.2, 4)
        self.proxy.flow()

    async def slow_the_network(self) -> None:
        self.done["network slow"] += 1
        self.proxy.delay_s = 0.05
        await self._a_while(0.5, 4)
        self.proxy.delay_s = 0.0

    async def _a_while(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self._chance.uniform(least_s, most_s))

    async def _tell(self, *command: str) -> None:
        async with redis.asyncio.Redis.from_url(self.server.url) as admin:
            await admin.execute_command(*command)


def fate(number: int) -> str:
    """Of a job: a few fail once, fewer die."""
    if number % 1009 == 1008:
        return "die"
    return "fail" if number % 97 == 96 else "well"


class Adder:
    """Adds numbered jobs, now and later, each under its number; tries each until the server has confirmed it."""

    def __init__(self, url: str, queue: str, *, ahead: int, per_s: int) -> None:
        self._url = url
        self._queue = queue
        self._ahead = ahead
        self._pause_s = 50 / per_s
        self.accepted = 0
        self.retried = 0

    async def run(self, stop: asyncio.Event, finished: object) -> None:
        """Stays a little ahead of the workers."""
        assert callable(finished)
        async with Queue(self._queue, redis_url=self._url) as queue:
            while not stop.is_set():
                await until(lambda: stop.is_set() or self.accepted - finished() < self._ahead, timeout_s=300)
                numbers = range(self.accepted, self.accepted + 50)
                jobs = [
                    {"name": "n", "data": [n, fate(n)], "job_id": f"job-{n}", "delay_ms": 500 if n % 10 == 0 else None}
                    for n in numbers
                ]
                while True:
                    try:
                        await queue.add_bulk(jobs)
                        break
                    except RedisError:
                        self.retried += 1
                        await asyncio.sleep(0.1)
                self.accepted = numbers.stop
                await asyncio.sleep(self._pause_s)
