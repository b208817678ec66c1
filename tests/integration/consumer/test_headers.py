"""Headers travel with a job: whatever becomes of it, its handler is given them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import AddOptions, ConfigError, Job, Queue, SyncQueue, UnrecoverableError
from chasqui_engine.codec.envelope import encode_envelope, encode_payload
from tests.support.consumers import Gate, Recorder, consuming
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio import Redis

TENANT = {"tenant": "42", "größe": "✓"}
MINUTE_MS = 60_000


class Failing(Recorder):
    """A recorder whose first run of a job fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def __call__(self, job: Job) -> None:
        await super().__call__(job)
        if sum(one.id == job.id for one in self.jobs) == 1:
            raise self._error


async def kept(raw: Redis, queue: Queue) -> set[bytes]:
    """The headers' keys of a queue."""
    return {key async for key in raw.scan_iter(f"{queue._keys.headers('')}*".replace("{", "[{]"), count=10_000)}


async def test_a_handler_is_given_the_headers_of_its_job(queue: Queue, redis_url: str) -> None:
    handler = Recorder()
    added = await queue.add("n", 1, headers=TENANT)
    [bulk, plain] = await queue.add_bulk(
        [{"name": "n", "data": 2, "headers": {"a": "b"}}, {"name": "", "data": 3, "attempts": 2}]
    )
    unique = await queue.add_unique("", 4, job_id="own", headers={"c": ""})
    assert [job.headers for job in (added, bulk, plain, unique)] == [TENANT, {"a": "b"}, {}, {"c": ""}]
    with SyncQueue(queue.name, redis_url=redis_url) as blocking:
        blocking.add("n", 5, headers={"d": "e"})
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: len(handler.jobs) == 5)
    assert {job.payload: job.headers for job in handler.jobs} == {
        1: TENANT,
        2: {"a": "b"},
        3: {},
        4: {"c": ""},
        5: {"d": "e"},
    }


async def test_they_are_kept_over_delay_and_retry_and_gone_with_the_job(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    handler = Failing(ValueError("once"))
    await queue.add("n", 1, headers=TENANT, delay_ms=50)
    await queue.add("n", 2, headers=TENANT, job_id="own", delay_ms=50)
    await queue.add("n", 3, headers=TENANT)
    await queue.add("n", 4)
    assert len(await kept(raw, queue)) == 3
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: len(handler.jobs) == 8)
    assert sorted((job.payload, job.attempt, job.headers == TENANT) for job in handler.jobs) == [
        (payload, attempt, payload != 4) for payload in (1, 2, 3, 4) for attempt in (0, 1)
    ]
    assert await kept(raw, queue) == set()


async def test_a_failed_job_keeps_them_for_as_long_as_it_waits(queue: Queue, redis_url: str, raw: Redis) -> None:
    handler = Failing(ValueError("once"))
    job = await queue.add("n", 1, headers=TENANT, attempts=2, backoff=10_000_000)
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: raw.zcard(queue._keys.delayed))
    for key in (queue._keys.headers(job.id), queue._keys.uses):
        assert 96_000 < await raw.ttl(key) <= 96_401


async def test_a_dead_letter_has_them_and_so_has_its_replay(queue: Queue, redis_url: str, raw: Redis) -> None:
    handler = Failing(UnrecoverableError("no"))
    await queue.add("n", 1, headers=TENANT)
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: raw.xlen(queue._keys.dlq))
        # As after a day: then the dead letter alone has them.
        await raw.delete(*await kept(raw, queue), queue._keys.uses)
        assert await queue.replay_dlq() == 1
        await until(lambda: len(handler.jobs) == 2)
    assert [job.headers for job in handler.jobs] == [TENANT, TENANT]


async def test_a_delayed_job_that_is_run_at_once_has_them(queue: Queue, redis_url: str) -> None:
    handler = Recorder()
    job = await queue.add("n", 1, headers=TENANT, delay_ms=MINUTE_MS)
    assert await queue.run_delayed_now(job.id)
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: handler.jobs)
    assert handler.jobs[0].headers == TENANT


async def test_what_a_stopping_worker_releases_still_has_them(queue: Queue, redis_url: str) -> None:
    gate, handler = Gate(), Recorder()
    for payload in range(3):
        await queue.add("n", payload, headers=TENANT)
    async with consuming(redis_url, queue.name, gate, concurrency=1) as first:
        await until(lambda: gate.started)
        first.shutdown.set()
        gate.open()
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: len(handler.jobs) + len(gate.finished) == 3)
    assert handler.jobs
    assert all(job.headers == TENANT for job in handler.jobs)


async def test_a_worker_finds_those_of_an_entry_that_came_without(queue: Queue, redis_url: str, raw: Redis) -> None:
    """So an entry is that ChasquiMQ's promoter, or its replay, has moved."""
    handler = Recorder()
    job = await queue.add("n", 1, headers=TENANT)
    [(entry, fields)] = await raw.xrange(queue._keys.stream)
    del fields[b"h"]
    await raw.xdel(queue._keys.stream, entry)
    await raw.xadd(queue._keys.stream, fields)
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: handler.jobs)
    assert (handler.jobs[0].id, handler.jobs[0].headers) == (job.id, TENANT)


async def test_those_of_an_earlier_job_are_not_given_to_a_later_one_of_its_id(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    handler = Recorder()
    await queue.add("n", 1, headers=TENANT, job_id="own")
    # Ended by a worker that does not know headers, long enough ago that the id is free again.
    await raw.delete(queue._keys.stream, queue._keys.taken("own"))
    await asyncio.sleep(0.002)
    await queue.add("n", 2, job_id="own")
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: handler.jobs)
    assert (handler.jobs[0].payload, handler.jobs[0].headers) == (2, {})


@pytest.mark.parametrize(
    "field", [b"\xc1", encode_payload(1), encode_payload({1: "a"}), encode_payload({"a": 1}), b"\x81" * 20_000]
)
async def test_a_job_runs_without_headers_that_cannot_be_read(
    queue: Queue, redis_url: str, raw: Redis, caplog: pytest.LogCaptureFixture, field: bytes
) -> None:
    handler = Recorder()
    envelope = encode_envelope("foreign", encode_payload(1), 1)
    await raw.xadd(queue._keys.stream, {"d": envelope, "h": field})
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: handler.jobs)
    assert handler.jobs[0].headers == {}
    assert "job 'foreign' runs without its headers" in caplog.text


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ("tenant=42", "headers must be a mapping"),
        ({"tenant": 42}, "the value of 'tenant' must be text"),
        ({1: "a"}, "a name must be a text"),
        ({"": "a"}, "a name must be a text"),
        ({"chasqui-x": "a"}, "reserved"),
        ({"a": "x" * 8192}, "up to 8192 bytes"),
        ({"a": "\ud800"}, "headers cannot be written"),
    ],
)
async def test_headers_that_cannot_travel_are_refused_before_anything_is_written(
    queue: Queue, raw: Redis, headers: Any, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        await queue.add("n", 1, headers=headers)
    with pytest.raises(ConfigError, match=text):
        await queue.add_bulk([{"name": "n", "data": 1}, {"name": "n", "data": 2, "headers": headers}])
    assert await raw.exists(queue._keys.stream) == 0


REMOVALS: dict[str, Callable[[Queue, Job], Any]] = {
    "remove": lambda queue, job: queue.remove(job.id),
    "drain": lambda queue, job: queue.drain(delayed=True),
    "cancel": lambda queue, job: queue.cancel_delayed(job.id),
    "obliterate": lambda queue, job: queue.obliterate(),
}


CASES = [(name, delay_ms) for name in REMOVALS for delay_ms in (None, MINUTE_MS) if delay_ms or name != "cancel"]


@pytest.mark.parametrize(("removal", "delay_ms"), CASES)
async def test_they_are_removed_with_their_job(queue: Queue, raw: Redis, removal: str, delay_ms: int | None) -> None:
    job = await queue.add("n", 1, headers=TENANT, delay_ms=delay_ms)
    assert await kept(raw, queue)
    assert await REMOVALS[removal](queue, job)
    assert await kept(raw, queue) == set()


async def test_a_queue_without_headers_has_no_more_in_redis_than_before(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    handler = Failing(ValueError("once"))
    await queue.add("n", 1)
    await queue.add("n", 2, delay_ms=1, job_id="own")
    async with consuming(redis_url, queue.name, handler):
        [(_, fields)] = await raw.xrange(queue._keys.stream) or [(b"", {})]
        assert b"h" not in fields
        await until(lambda: len(handler.jobs) == 4)
    assert await raw.exists(queue._keys.uses) == 0
    assert await kept(raw, queue) == set()


async def test_the_options_of_a_producer_have_headers_too(queue: Queue, redis_url: str) -> None:
    handler = Recorder()
    producer = await queue._producer()
    await producer.add_bulk_with_options([1, 2], AddOptions(headers=TENANT))
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: len(handler.jobs) == 2)
    assert [job.headers for job in handler.jobs] == [TENANT, TENANT]
