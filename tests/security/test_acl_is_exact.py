"""The ACL files grant nothing that is not used: each role does its work while the server tells what it is asked."""

from __future__ import annotations

import asyncio
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import (
    AddOptions,
    Producer,
    ProducerConfig,
    QueueBusyError,
    QueueEvents,
    RepeatableSpec,
    RepeatPattern,
    ResultUnavailableError,
    SchedulerConfig,
)
from chasqui_engine._redis.client.connector import Connector
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine.admin.monitor import QueueMonitor
from chasqui_engine.codec.envelope import encode_envelope
from chasqui_engine.runtime.clock import now_ms
from tests.servers import REDIS_6, REDIS_7
from tests.support.acl import KEYS, QUEUE, Fails, file_of, refusals, url_for
from tests.support.consumers import consuming
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chasqui_engine import Job
    from tests.servers import ServerProcess

EVERYBODY = {"auth", "hello", "select", "client|setname", "info", "command|info", "cluster|slots", "time", "eval"}
"""What it takes to be let in, to learn what the server can do, and to run a script."""
EVERYBODY |= {"evalsha"}
END = "the work is done"


class Asked:
    """The commands that a server was given meanwhile, those of scripts included."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, list[str]]] = []

    def note(self, text: str) -> None:
        words = text.split(" ")
        keys = [word for word in words if word.startswith("{chasqui:")]
        self.commands += [(words[0].lower(), keys), ("|".join(words[:2]).lower(), keys)]

    def uses(self, command: str, pattern: str) -> bool:
        """Whether the command was given for a key that the pattern allows."""
        return any(
            name == command and any(fnmatchcase(key, pattern.replace("[", "[[]")) for key in keys)
            for name, keys in self.commands
        )


async def asked_during(admin: Redis, work: Callable[[], Awaitable[None]]) -> Asked:
    asked = Asked()
    async with admin.monitor() as monitor:

        async def listen() -> None:
            async for told in monitor.listen():
                if END in told["command"]:
                    return
                asked.note(told["command"])

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0.1)
        await work()
        await admin.execute_command("ECHO", END)
        async with asyncio.timeout(20):
            await listening
    return asked


def grants(text: str) -> tuple[set[str], list[tuple[list[str], list[str]]]]:
    """The commands that are for no key of their own; and per selector its commands and key patterns."""
    selectors = re.findall(r"\(([^)]*)\)", text)
    root = re.sub(r"\([^)]*\)", "", text).split()
    return (
        {word[1:] for word in root if word.startswith("+")},
        [
            (
                [word[1:] for word in selector.split() if word[0] == "+"],
                [word.partition("~")[2] for word in selector.split() if "~" in word],
            )
            for selector in selectors
        ],
    )


async def connected(url: str, **settings: Any) -> Producer:
    return await Producer.connect(url, ProducerConfig(queue_name=QUEUE, **settings))


async def produce(url: str, admin: Redis) -> None:
    """Add, delay, cancel, repeat, wait for results."""
    async with await connected(url) as producer, await connected(url, when_full="trim") as trimming:
        await admin.xgroup_create(KEYS.stream, "default", "0", mkstream=True)
        await admin.xgroup_createconsumer(KEYS.stream, "default", "waits")
        # The first goes to the worker that waits.
        await producer.add_now([(n, AddOptions(id=f"urgent {n}", priority=1 + n)) for n in range(3)])
        assert await producer.change_priority("urgent 1", 3)
        assert await producer.cancel_delayed("urgent 2")
        await producer.add(1)
        # Almost full, ids are looked up before anything is written.
        async with await connected(url, max_stream_len=1) as full:
            await producer.add_with_id("a", 1)
            await full.add_with_id("a", 1)
        await trimming.add(1)
        await producer.add_in_with_id("later", 60, 1)
        minted = await producer.add_in_with_options(60, 1, AddOptions(headers={"a": "b"}))
        assert await producer.reschedule_delayed("later", now_ms() + 90_000)
        assert await producer.run_delayed_now("later")
        assert await producer.cancel_delayed(minted)
        await producer.add_in_with_id("cancelled", 60, 1)
        assert await producer.cancel_delayed("cancelled")
        key = await producer.upsert_repeatable(RepeatableSpec("n", RepeatPattern.every(60_000), 1))
        await producer.upsert_repeatable(RepeatableSpec("n", RepeatPattern.every(60_000), 2))
        assert await producer.list_repeatable()
        assert await producer.remove_repeatable(key)
        for _ in range(2):  # the second time there is no event left to go on from
            await admin.set(KEYS.result("r"), b"\x01", ex=60)
            assert await producer.wait_for_result("r", 5) == 1
        with pytest.raises((ResultUnavailableError, TimeoutError)):
            await producer.wait_for_result("nobody", 0.2)
    await admin.delete(KEYS.events)
    async with await connected(url) as producer:
        with pytest.raises((ResultUnavailableError, TimeoutError)):
            await producer.wait_for_result("nobody", 0.2)


async def work(url: str, admin: Redis) -> None:
    """Take, run, retry, bury, promote, fire, let expire; take over from the dead; be deleted by hand; hand back."""
    handler = Fails()

    async def handle(job: Job) -> Any:
        result = await handler(job)
        job.log("begun")
        if job.name == "delayed":
            for consumer in await admin.xinfo_consumers(KEYS.stream, "default"):
                await admin.xgroup_delconsumer(KEYS.stream, "default", consumer["name"])
        await asyncio.sleep(60 if job.name == "hangs" else 0)
        return result

    settings: dict[str, Any] = {"block_ms": 100, "claim_min_idle_ms": 300, "delayed_lock_ttl_secs": 1}
    settings |= {"run_scheduler": True, "scheduler": SchedulerConfig(tick_interval_ms=50)}
    settings |= {"max_attempts": 2, "store_results": True, "shutdown_deadline_secs": 0.1}
    async with consuming(url, QUEUE, handle, **settings):
        # The promoter's lock is renewed three times a second.
        await asyncio.sleep(1)
        await until(lambda: {"n", "delayed", "fails once", "dies", "tick", "hangs", "taken over"} <= set(handler.runs))
        await until(lambda: _is_gone(admin, "once"))
        await admin.hset(KEYS.spec("tick"), "fired", "no number")
        await until(lambda: _counts(admin, "tick"))
    await admin.hset(KEYS.limits, mapping={"rate_max": 1000, "rate_ms": 1000, "concurrency": 10})
    async with consuming(url, QUEUE, handle, **settings):
        await until(lambda: admin.exists(KEYS.limiter))
        await asyncio.sleep(0.5)  # and then for more jobs
    await admin.delete(KEYS.limits)
    async with consuming(url, QUEUE, handle, max_age_secs=0):
        await until(lambda: _has(admin, b"expired"))
    await abort(url, admin)


async def abort(url: str, admin: Redis) -> None:
    """As a worker: give a job back that is to be aborted, and end it when it comes again."""
    connector = Connector(url, QUEUE, "worker", None)
    link = connector.link(5)
    try:
        await group.ensure_group(link, GroupMember(KEYS, "default", "one"))
        entry_id = await admin.xadd(KEYS.stream, {"d": encode_envelope("aborted", b"\x01", 1)})
        await admin.xreadgroup("default", "one", {KEYS.stream: ">"}, count=1000)
        await admin.zadd(KEYS.aborts, {entry_id: now_ms() + 60_000})
        await group.release(link, GroupMember(KEYS, "default", "one"), [entry_id])
    finally:
        await connector.close()
    async with consuming(url, QUEUE, Fails()):
        await until(lambda: _has(admin, b"aborted"))


async def _has(admin: Redis, event: bytes) -> bool:
    return any(fields[b"e"] == event for _, fields in await admin.xrevrange(KEYS.events, count=100))


async def _is_gone(admin: Redis, spec: str) -> bool:
    return not await admin.exists(KEYS.spec(spec))


async def _counts(admin: Redis, spec: str) -> bool:
    return bool((await admin.hget(KEYS.spec(spec), "fired") or b"").isdigit())


async def look(url: str, admin: Redis) -> None:
    """Read everything of every queue."""
    del admin
    async with await connected(url) as producer:
        await producer.snapshot()
        await producer.health()
        for job_id in ("waiting", "own", "urgent", "unheard of"):
            await producer.get_job(job_id)
        assert await producer.get_jobs("prioritized")
        await producer.list_waiting()
        await producer.list_active()
        await producer.list_delayed()
        await producer.list_repeatable()
        await producer.newest_events()
        await producer.read_history(0)
        await producer.page_newest_dlq(None)
        await producer.peek_dlq()
        await producer.is_paused()
        await producer.get_result("r")
    async with QueueEvents(QUEUE, redis_url=url, last_event_id="0", block_ms=100) as events:
        await anext(aiter(events))
    looker = await QueueMonitor.connect(url)
    try:
        assert QUEUE in await looker.names()
    finally:
        await looker.close()


async def operate(url: str, admin: Redis) -> None:
    """What a monitor may, and replay, cancel, pause, add, remove."""
    await look(url, admin)
    async with await connected(url) as producer:
        await producer.set_limits(concurrency=1)
        assert await producer.clear_limits()
        assert await producer.pause()
        assert await producer.resume()
        assert await producer.replay_dlq(1) == 1
        assert await producer.change_priority("urgent", 1)
        assert await producer.cancel_delayed("urgent")
        [letter] = await producer.peek_dlq()
        assert await producer.delete_dead([letter.dlq_id]) == 1
        assert await producer.reschedule_delayed("own", now_ms() + 90_000)
        assert await producer.run_delayed_now("own")
        delayed = (await producer.list_delayed())[-1]
        assert delayed.job is not None
        assert await producer.cancel_delayed(delayed.job.id)
        assert await producer.pause_repeatable("tick")
        assert await producer.resume_repeatable("tick")
        assert await producer.fire_repeatable("tick")
        assert await producer.remove_repeatable("tick")
        await producer.add_with_id("added", 1)
        await producer.add_in_with_id("added later", 60, 1)
        [waiting] = [one for one in await producer.list_waiting() if one.job_id == "added"]
        assert await producer.remove_waiting([waiting.entry_id]) == 1
        await admin.set(KEYS.result("r"), b"\x01")
        assert await producer.remove("r") == 1
        await abort_two(producer)


async def abort_two(producer: Producer) -> None:
    """One that a worker was given, and one that waits."""
    assert await producer.abort((await producer.list_active())[0].job_id, timeout=0) == "requested"
    assert await producer.abort((await producer.list_waiting())[0].job_id) == "removed"


async def clean(url: str, admin: Redis) -> None:
    """What a monitor may, and remove one job, those of an age, and the queue."""
    await look(url, admin)
    await admin.set(KEYS.result("r"), b"\x01")
    async with await connected(url) as producer:
        assert await producer.remove("waiting") == 0
        assert await producer.remove("own") == 1
        assert await producer.remove("r") == 1
        assert (await producer.get_job_counts())["active"] == 4
        assert len(await producer.clean(0, 1, "failed")) == 1
        await abort_two(producer)
        assert await producer.drain() == 4
        with pytest.raises(QueueBusyError):
            await producer.obliterate()
        assert await producer.obliterate(force=True) >= 4


async def furnish(url: str, admin: Redis) -> None:
    """A queue with something of everything in it."""
    async with await connected(url) as producer:
        await producer.add_with_options(1, AddOptions(name="n", headers={"a": "b"}))
        await producer.add_with_options(2, AddOptions(name="n"))
        await producer.add_with_options(3, AddOptions(name="dies"))
        await producer.add_with_options(4, AddOptions(id="waiting", name="taken over"))
        await producer.add_in_with_options(0.2, 5, AddOptions(name="delayed"))
        await producer.add_in_with_id("own", 600, 6)
        await producer.upsert_repeatable(RepeatableSpec("tick", RepeatPattern.every(100), 1, key="tick"))
        await admin.xgroup_create(KEYS.stream, "default", "0")
        await admin.xreadgroup("default", "dead", {KEYS.stream: ">"}, count=4)
        for name in ("fails once", "hangs"):
            await producer.add_with_options(7, AddOptions(name=name, headers={"a": "b"}))
        await producer.add_with_options(8, AddOptions(id="urgent", priority=2))
        await producer.add_in_with_options(0.1, 8, AddOptions(name="fails once", priority=2))
        await producer.upsert_repeatable(RepeatableSpec("once", RepeatPattern.every(100), 1, key="once", limit=1))
    for _ in range(2):
        dead: dict[Any, Any] = {
            "d": b"\x94\xa1j\xc4\x01\xc0\x01\x00",
            "source_id": "1-1",
            "reason": "malformed",
            "p": 2,
        }
        await admin.xadd(KEYS.dlq, dead)


WORK = {"producer": produce, "worker": work, "monitor": look, "operator": operate, "cleaner": clean}


@pytest.mark.parametrize("role", WORK)
async def test_a_role_is_granted_nothing_that_it_does_not_use(
    guarded: ServerProcess, server_kind: str, admin: Redis, role: str
) -> None:
    if role != "producer":
        await furnish(guarded.url, admin)
    asked = await asked_during(admin, lambda: WORK[role](url_for(guarded, role), admin))
    # The files for Redis 6.2 are these without their selectors: another test holds them to it.
    for_all, selectors = grants(file_of(role, REDIS_7 if server_kind == REDIS_6 else server_kind).read_text())
    library = set() if server_kind in (REDIS_6, REDIS_7) else {"client|setinfo"}
    assert for_all == EVERYBODY | library | ({"scan"} if role in ("monitor", "operator", "cleaner") else set())
    assert library <= {name for name, _ in asked.commands}
    assert not await refusals(admin)
    unused = [
        f"+{command} {' '.join(patterns)}"
        for commands, patterns in selectors
        for command in commands
        if not any(asked.uses(command, pattern) for pattern in patterns)
    ]
    unused += [
        f"{pattern} for {' '.join(commands)}"
        for commands, patterns in selectors
        for pattern in patterns
        if not any(asked.uses(command, pattern) for command in commands)
    ]
    assert not unused, "\n".join(unused)
