"""The ACL files in `deploy/acl`: each role does its work, and is refused the rest."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from chasqui_engine import JobFailedError, Queue, QueueEvents, RedisError, RepeatPattern, Worker
from tests.servers import REDIS_6, REDIS_7
from tests.support.acl import FOLDER, KEYS, QUEUE, ROLES, Fails, file_of, refusals, url_for, without_selectors
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.servers import ServerProcess


def worker_of(server: ServerProcess, handler: Fails) -> Worker:
    settings: dict[str, Any] = {"read_block_ms": 100, "claim_min_idle_ms": 300, "scheduler_tick_ms": 50}
    return Worker(QUEUE, handler, redis_url=url_for(server, "worker"), max_attempts=2, store_results=True, **settings)


async def test_every_role_does_its_work(guarded: ServerProcess, admin: Redis) -> None:
    handler = Fails()
    async with (
        Queue(QUEUE, redis_url=url_for(guarded, "producer")) as queue,
        Queue(QUEUE, redis_url=url_for(guarded, "monitor")) as eyes,
        Queue(QUEUE, redis_url=url_for(guarded, "operator")) as hands,
        QueueEvents(QUEUE, redis_url=url_for(guarded, "monitor"), last_event_id="0", block_ms=100) as events,
    ):
        await queue.add("cancelled", 1, job_id="later", delay_ms=60_000)
        minted = await queue.add("cancelled", 1, delay_ms=60_000)
        assert await queue.cancel_delayed("later")
        assert await queue.cancel_delayed(minted.id)
        async with working(worker_of(guarded, handler)):
            jobs = [
                await queue.add("n", 1),
                await queue.add("n", 2, job_id="mine"),
                await queue.add("delayed", 3, delay_ms=50),
                await queue.add("fails once", 4),
            ]
            assert [await job.wait_for_result(timeout=10) for job in jobs] == [1, 2, 3, 4]
            assert await queue.get_job_result("mine") == 2
            dead = await queue.add("dies", 5)
            with pytest.raises(JobFailedError):
                await dead.wait_for_result(timeout=10)
            spec = await queue.upsert_repeatable_job("tick", 1, repeat=RepeatPattern.every(100))
            await until(lambda: handler.runs.count("tick") >= 2)
            assert [meta.key for meta in await queue.get_repeatable_jobs()] == [spec.id]
            assert await queue.remove_repeatable_by_key(spec.id)

            assert [letter["name"] for letter in await eyes.peek_dlq()] == ["dies"]
            assert await eyes.get_repeatable_jobs() == []
            assert (await anext(aiter(events))).name == "delayed"
            assert (await eyes.counts()).dead == 1
            assert (await eyes.get_job(dead.id)).name == "dies"
            assert (await eyes.get_job("unheard of")).name == ""
            assert not await eyes.is_paused()
            assert await hands.pause()
            assert await hands.resume()
            assert await hands.replay_dlq() == 1
            await until(lambda: handler.runs.count("dies") >= 3)
        assert await admin.xinfo_consumers(KEYS.stream, "default") == []
    assert await refusals(admin) == []


async def test_a_worker_takes_over_from_one_that_died(guarded: ServerProcess, admin: Redis) -> None:
    handler = Fails()
    async with Queue(QUEUE, redis_url=url_for(guarded, "producer")) as queue:
        await queue.add("n", 1)
        await admin.xgroup_create(KEYS.stream, "default", "0")
        await admin.xreadgroup("default", "dead", {KEYS.stream: ">"})
        async with working(worker_of(guarded, handler)):
            await until(lambda: handler.runs == ["n"])
            await until(lambda: _is_empty(admin))
    assert await refusals(admin) == []


async def _is_empty(admin: Redis) -> bool:
    return await admin.xlen(KEYS.stream) == 0


STREAM, OTHER = KEYS.stream, "somebody-elses"
FOR_NOBODY: list[tuple[str, ...]] = [
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("KEYS", "*"),
    ("CONFIG", "GET", "requirepass"),
    ("CONFIG", "SET", "maxmemory", "1"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "x"),
    ("SHUTDOWN",),
    ("SCRIPT", "FLUSH"),
    ("CLIENT", "LIST"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("MONITOR",),
    ("SUBSCRIBE", "c"),
    ("PUBLISH", "c", "x"),
    ("RENAME", STREAM, OTHER),
    ("DUMP", STREAM),
    ("DEL", STREAM),
    ("XTRIM", KEYS.dlq, "MAXLEN", "0"),
    ("GET", OTHER),
    ("SET", OTHER, "x"),
    ("XADD", OTHER, "*", "d", "x"),
    ("EVAL", "return redis.call('GET', KEYS[1])", "1", OTHER),
    ("EVAL", "return redis.call('GET', ARGV[1])", "0", OTHER),
    ("EVAL", "return redis.call('DEL', KEYS[1])", "1", STREAM),
    ("EVAL", "return redis.call('FLUSHALL')", "0"),
]
FOR_OTHERS: dict[str, list[tuple[str, ...]]] = {
    "producer": [
        ("UNLINK", STREAM),
        ("XTRIM", STREAM, "MAXLEN", "0"),
        ("XRANGE", STREAM, "-", "+"),
        ("XREAD", "STREAMS", STREAM, "0"),
        ("XREADGROUP", "GROUP", "default", "c", "STREAMS", STREAM, ">"),
        ("XDEL", STREAM, "1-1"),
        ("XRANGE", KEYS.dlq, "-", "+"),
        ("SET", KEYS.result("j"), "x"),
        ("SET", KEYS.promoter_lock, "x"),
        ("DEL", KEYS.delayed),
        ("SCAN", "0"),
    ],
    "worker": [
        ("UNLINK", STREAM),
        ("XRANGE", KEYS.dlq, "-", "+"),
        ("XDEL", KEYS.dlq, "1-1"),
        ("XTRIM", STREAM, "MAXLEN", "0"),
        ("GET", KEYS.result("j")),
        ("SET", KEYS.taken("j"), "1"),
        ("SET", KEYS.paused, "1"),
        ("XREAD", "STREAMS", KEYS.events, "0"),
        ("XGROUP", "DESTROY", STREAM, "default"),
        ("SCAN", "0"),
    ],
    "monitor": [
        ("UNLINK", STREAM),
        ("XADD", STREAM, "*", "d", "x"),
        ("XREADGROUP", "GROUP", "default", "c", "STREAMS", STREAM, ">"),
        ("XDEL", KEYS.dlq, "1-1"),
        ("ZADD", KEYS.delayed, "1", "x"),
        ("SET", KEYS.paused, "1"),
        ("DEL", KEYS.result("j")),
        ("EVAL", "return redis.call('XADD', KEYS[1], '*', 'd', 'x')", "1", STREAM),
    ],
    "operator": [
        ("UNLINK", STREAM),
        ("XREADGROUP", "GROUP", "default", "c", "STREAMS", STREAM, ">"),
        ("XGROUP", "DESTROY", STREAM, "default"),
        ("XTRIM", STREAM, "MAXLEN", "0"),
        ("SET", KEYS.result("j"), "x"),
        ("HSET", KEYS.spec("x"), "spec", "x"),
    ],
    "cleaner": [
        ("XADD", STREAM, "*", "d", "x"),
        ("XREADGROUP", "GROUP", "default", "c", "STREAMS", STREAM, ">"),
        ("XACK", STREAM, "default", "1-1"),
        ("XGROUP", "DESTROY", STREAM, "default"),
        ("ZADD", KEYS.delayed, "1", "x"),
        ("SET", KEYS.paused, "1"),
        ("SET", KEYS.result("j"), "x"),
        ("UNLINK", OTHER),
    ],
}


def has_both(rules: str, command: tuple[str, ...]) -> bool:
    """Whether a user has the command, for whatever key, and its key, for whatever command."""
    called = re.search(r"redis\.call\('(\w+)'", command[1]) if command[0] == "EVAL" else None
    name = (called[1] if called else command[0]).lower()
    patterns = [word[1:] for word in rules.split() if word[0] == "~"]
    return f"+{name}" in rules.split() and any(fnmatchcase(word, p) for word in command[1:] for p in patterns)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_is_refused_the_rest(guarded: ServerProcess, server_kind: str, admin: Redis, role: str) -> None:
    await admin.set(OTHER, "theirs")
    await admin.xadd(STREAM, {"d": "x"})
    refused = FOR_NOBODY + FOR_OTHERS[role]
    if server_kind == REDIS_6:
        # A user there has each of its commands for each of its keys.
        refused = [command for command in refused if not has_both(file_of(role, REDIS_6).read_text(), command)]
        assert len(refused) > len(FOR_NOBODY)
    async with Redis.from_url(url_for(guarded, role)) as client:
        for command in refused:
            with pytest.raises((NoPermissionError, ResponseError)) as caught:
                await client.execute_command(*command)
            said = str(caught.value)
            assert re.search(r"permission|NOPERM|can't (run|access)", said), f"{command}: {said}"
    assert await admin.get(OTHER) == b"theirs"
    assert await admin.xlen(STREAM) == 1


def test_the_files_for_workers_differ_in_how_entries_leave_the_stream() -> None:
    plain, newer = ((FOLDER / f"{name}.acl").read_text() for name in ("worker", "worker-redis-8.2"))
    assert newer.replace("+xackdel", "+xack") == plain


@pytest.mark.parametrize("role", ROLES)
def test_the_files_for_redis_7_0_leave_out_the_command_that_it_does_not_know(role: str) -> None:
    plain, older = ((FOLDER / folder / f"{role}.acl").read_text() for folder in (".", "redis-7.0"))
    assert plain.replace("+client|setinfo ", "") == older


@pytest.mark.parametrize("role", ROLES)
def test_the_files_for_redis_62_grant_the_same_commands_and_keys(role: str) -> None:
    assert file_of(role, REDIS_6).read_text().split() == without_selectors(file_of(role, REDIS_7).read_text())


async def test_a_refusal_is_an_error_that_says_so(guarded: ServerProcess) -> None:
    async with Queue(QUEUE, redis_url=url_for(guarded, "monitor")) as queue:
        with pytest.raises(RedisError, match=r"(?i)permission|can't run"):
            await queue.add("n", 1)
