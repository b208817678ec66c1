"""The password is nowhere to be read: everything that the engine says, writes, shows or starts is searched for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import (
    ChasquiError,
    Consumer,
    ConsumerConfig,
    Producer,
    Promoter,
    Queue,
    QueueEvents,
    Scheduler,
    SyncQueue,
    Worker,
)
from chasqui_engine._redis.client.connector import Connector
from chasqui_engine._redis.client.urls import split_url
from chasqui_engine.metrics import InMemorySink, PrometheusSink
from tests.security.process_handler import plain
from tests.servers import ServerProcess
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

SECRET = "hunter2-Tr0ub4dor"
QUEUE = "secrets"


class Shown:
    """All that anybody could see."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *things: object) -> None:
        for thing in things:
            self.texts += [repr(thing), str(thing)]

    def add_error(self, err: BaseException) -> None:
        self.add(err, err.args)
        self.texts += traceback.format_exception(err)

    async def failing(self, attempt: Callable[[], Any]) -> None:
        """What is said when something cannot be done."""
        try:
            async with asyncio.timeout(15):
                await attempt()
        except ChasquiError as err:
            self.add_error(err)
        else:
            pytest.fail("it could be done")

    def where(self) -> list[str]:
        """The texts that show the password."""
        return [text for text in self.texts if SECRET in text]


@pytest.fixture
async def server() -> AsyncIterator[ServerProcess]:
    """A server with a password; set when it runs, because a command line is for all to see."""
    with ServerProcess() as server:
        async with Redis.from_url(server.url) as admin:
            await admin.config_set("requirepass", SECRET)
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are said after half a second."""
    monkeypatch.setattr("chasqui_engine.admin.admin.A_MOMENT_S", 0.5)
    monkeypatch.setattr("chasqui_engine.consumer.consumer._START_PATIENCE_S", 0.5)


def command_lines() -> Iterator[str]:
    """Of this process and all that it started, as everybody on the machine sees them."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    for pid in family:
        with contextlib.suppress(OSError):
            yield Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def logins(server: ServerProcess, how: str) -> dict[str, Any]:
    if how == "url":
        return {"redis_url": server.url.replace("redis://", f"redis://:{SECRET}@")}
    return {"redis_url": server.url, "credential_provider": lambda _address: (None, SECRET)}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("how", ["url", "provider"])
async def test_the_password_is_nowhere(
    server: ServerProcess, how: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    login, shown, registry = logins(server, how), Shown(), CollectorRegistry()
    memory, metrics = InMemorySink(), PrometheusSink(QUEUE, registry=registry)
    asyncio.get_running_loop().set_debug(True)
    with caplog.at_level(logging.DEBUG):
        worker = Worker(
            QUEUE,
            plain,
            run_plain_in="process",
            shutdown_deadline_secs=0,
            max_attempts=1,
            store_results=True,
            metrics=metrics,
            **login,
        )
        running = asyncio.create_task(worker.run())
        queue = Queue(QUEUE, **login)
        events = QueueEvents(QUEUE, last_event_id="0", block_ms=100, **login)
        with contextlib.closing(SyncQueue(QUEUE, **login)) as blocking:
            shown.add(worker, queue, events, blocking, running, memory, metrics)
            job = await queue.add("n", 7)
            assert await job.wait_for_result(timeout=10) == 7
            dead = await asyncio.to_thread(blocking.add, "fail", 1)
            with pytest.raises(ChasquiError) as caught:
                await queue.wait_for_result(dead.id, timeout=10)
        shown.add_error(caught.value)
        shown.add(job, dead, await queue.peek_dlq())
        heard = [event async for event, _ in _first(events, 4)]
        shown.add(*heard)
        shown.texts += command_lines()
        await _what_redis_holds(server, shown)
        shown.add(generate_latest(registry).decode())

        await _changed(server, "another")  # from here on, every new connection is refused
        await until(lambda: "WRONGPASS" in caplog.text or "invalid" in caplog.text)
        await shown.failing(lambda: Queue(QUEUE, **login).add("n", 1))
        await shown.failing(
            lambda: Producer.connect(login["redis_url"], credential_provider=login.get("credential_provider"))
        )
        server.kill()
        await shown.failing(lambda: queue.add("n", 2))
        shown.add(worker, queue, running, *asyncio.all_tasks())
        await events.close()
        await queue.close()
        await worker.close()
        await asyncio.wait_for(running, 60)
    shown.add(caplog.text, *caplog.records, *capfd.readouterr())
    assert len(heard) == 4
    assert len(shown.texts) > 50
    assert shown.where() == []


async def _changed(server: ServerProcess, password: str) -> None:
    async with Redis.from_url(server.url, password=SECRET) as admin:
        await admin.config_set("requirepass", password)
        await admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def _first(events: QueueEvents, count: int) -> AsyncIterator[tuple[Any, int]]:
    number = 0
    async for event in events:
        number += 1
        yield event, number
        if number == count:
            return


async def _what_redis_holds(server: ServerProcess, shown: Shown) -> None:
    """Every key and value; and the names under which the connections are listed."""
    async with Redis.from_url(server.url, password=SECRET) as admin:
        shown.add(await admin.client_list())
        async for key in admin.scan_iter():
            dumped = await admin.dump(key)
            shown.add(key, dumped)


async def added(url: str) -> None:
    async with Queue(QUEUE, redis_url=url) as queue:
        await queue.add("n", 1)


async def consumed(url: str) -> None:
    await Consumer(url, ConsumerConfig(queue_name=QUEUE)).run(plain, asyncio.Event())


BAD_URLS = [
    "redis://:{secret}@127.0.0.1:{port}",
    "redis://user:{secret}@127.0.0.1:{port}/0",
    "redis://user:{secret}@127.0.0.1:{port}/nonsense",
    "redis://user:{secret}@127.0.0.1:port",
    "redis://user:{secret}@127.0.0.1:99999",
    "redis://user:{secret}@[::1",
    "redis://user:{secret}#@127.0.0.1:{port}",
    "redis://user:a/{secret}@127.0.0.1:{port}",
    "redis://user:a?{secret}@127.0.0.1:{port}",
    "redis://user:{secret}@127.0.0.1:{port}?socket_timeout={secret}",
    "redis://127.0.0.1:{port}?password={secret}",
    "redis://127.0.0.1:{port}?password=x&{secret}=1",
    "redis://127.0.0.1:{port}?password=x&{secret}",
    "rediss://user:{secret}@127.0.0.1:{port}",
    "redis://user:{secret}@a,b:1",
    "redis+sentinel://user:{secret}@127.0.0.1:{port}/service/0",
    "redis+sentinel://user:{secret}@127.0.0.1:{port}",
    "redis+sentinel://127.0.0.1:{port}/service?sentinel_password={secret}",
    "redis+sentinel://127.0.0.1:{port}/service?sentinel_nonsense={secret}",
    "redis+cluster://user:{secret}@127.0.0.1:{port}",
    "redis+cluster://user:{secret}@127.0.0.1:{port}/7",
    "unix://user:{secret}@/no/such/socket",
    "http://user:{secret}@127.0.0.1:{port}",
    "user:{secret}@127.0.0.1:{port}",
    "embedded://user:{secret}@/tmp/x",
]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("template", BAD_URLS)
async def test_a_url_that_leads_nowhere(template: str, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url, shown = template.format(secret=SECRET, port=port), Shown()
    with caplog.at_level(logging.DEBUG):
        await shown.failing(lambda: added(url))
        await shown.failing(lambda: consumed(url))
    shown.add(caplog.text)
    assert shown.where() == []


def test_the_parts_of_a_url_do_not_show_it() -> None:
    """Whoever prints the variables of a traceback sees the engine's own."""
    url = f"redis://user:{SECRET}@127.0.0.1:1/0"
    shown = Shown()
    shown.add(split_url(f"{url}?password={SECRET}", 6379), Connector(url, QUEUE, "producer"))
    shown.add(Connector(url, QUEUE, "producer").address, Promoter(url, QUEUE), Scheduler(url, QUEUE))
    assert shown.where() == []


async def test_a_provider_that_answers_wrongly_is_not_quoted() -> None:
    shown = Shown()
    for answer in (SECRET, (SECRET,), (SECRET, SECRET, SECRET), {SECRET: 1, "b": 2, "c": 3}):
        queue = Queue(QUEUE, redis_url="redis://127.0.0.1:1", credential_provider=lambda _: answer)  # type: ignore[arg-type, return-value] # noqa: B023
        await shown.failing(lambda queue=queue: queue.add("n", 1))
    assert shown.where() == []
