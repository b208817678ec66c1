"""Runs of poison through a queue, each with its account at the end. Sizes are the caller's: a test, or a soak."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from chasqui_engine import ChasquiError, ConsumerConfig, DecodeError, Job, Producer, ProducerConfig, QueueEvents
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.consumer.verdict import MAX_DETAIL_CHARS, MAX_ERROR_CHARS
from tests.support.consumers import consuming
from tests.support.hostile import poison
from tests.support.queues import server_ms
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

REASONS = {b"malformed", b"decode_failed", b"oversize_payload", b"retries_exhausted", b"unrecoverable"}
PIPE = 500
LIMIT_S = 600.0
"""For a soak; a test is long over by then."""
SOON_MS = 30_000
"""What is due by then is waited for."""
MOST_LATER = 5
"""Retries that may be due after that: in three million mutated entries there was one."""


class Tally:
    """A handler that counts, and fails now and then: the way through retries has to bear poison as well."""

    def __init__(self) -> None:
        self.runs = 0
        self.well = 0
        self.good: list[Any] = []

    async def __call__(self, job: Job) -> Any:
        self.runs += 1
        if isinstance(job.payload, dict) and "good" in job.payload:
            self.good.append(job.payload["good"])
        elif self.runs % 7 == 0:
            raise ValueError("now and then")
        else:
            self.well += 1
        return job.payload

    def ran_well(self, reasons: Counter[bytes]) -> int:
        """Jobs that ended well: what came back could be written down, too, unlike some of what can be read."""
        return self.well - reasons[b"unrecoverable"]


def settings(count: int) -> dict[str, Any]:
    """A worker that makes one run of each job, and keeps every dead letter."""
    scheduler = ConsumerConfig().scheduler
    return {
        "max_attempts": 1,
        "dlq_max_stream_len": 10 * count + 1000,
        "store_results": True,
        "run_scheduler": True,
        "delayed_poll_interval_ms": 20,
        "scheduler": type(scheduler)(tick_interval_ms=20, batch=256),
    }


async def dead_by_reason(raw: Redis, queue: str) -> Counter[bytes]:
    """The dead letters by reason; each must have one, and words that are not too many."""
    reasons: Counter[bytes] = Counter()
    start = "-"
    while page := await raw.xrange(QueueKeys(queue).dlq, start, count=1000):
        for _, fields in page:
            reasons[fields[b"reason"]] += 1
            assert fields[b"detail"]
            assert len(fields[b"detail"].decode()) <= MAX_DETAIL_CHARS
        start = f"({page[-1][0].decode()}"
    assert reasons.keys() <= REASONS
    return reasons


async def poison_stream(url: str, raw: Redis, queue: str, count: int, seed: int) -> str:
    """Entries of the stream: each is run or buried, and the queue goes on."""
    chance, tally, stream = random.Random(seed), Tally(), QueueKeys(queue).stream
    async with consuming(url, queue, tally, **settings(count)):
        for start in range(0, count, PIPE):
            async with raw.pipeline(transaction=False) as pipe:
                for _ in range(min(PIPE, count - start)):
                    pipe.xadd(stream, poison.stream_entry(chance))  # type: ignore[arg-type]
                await pipe.execute()
            await until(lambda: _room(raw, stream), timeout_s=LIMIT_S)
        await _goes_on(url, queue, tally)
        later = await _settled(raw, queue)
    reasons = await dead_by_reason(raw, queue)
    ran = tally.ran_well(reasons)
    assert ran + reasons.total() + later == count
    return f"{count} entries: {ran} ran, {_listed(reasons)}, {later} wait for long, as they asked"


async def poison_delayed(url: str, raw: Redis, queue: str, count: int, seed: int) -> str:
    """Members of the delayed set, due long ago, now, or never."""
    chance, tally, keys = random.Random(seed), Tally(), QueueKeys(queue)
    now = await server_ms(raw)
    members = {poison.delayed_member(chance): chance.choice([float("-inf"), -1, 0, now]) for _ in range(count)}
    never = {poison.delayed_member(chance) + b"never": chance.choice([float("inf"), 2.0**62]) for _ in range(10)}
    await _zadd(raw, keys.delayed, members | never)
    async with consuming(url, queue, tally, **settings(count)):
        await _goes_on(url, queue, tally)
        later = await _settled(raw, queue, len(never))
    reasons = await dead_by_reason(raw, queue)
    ran = tally.ran_well(reasons)
    assert ran + reasons.total() + later == len(members)
    said = f"{len(members)} members: {ran} ran, {_listed(reasons)}, {later} wait for long, as they asked"
    return f"{said}; {len(never)} due never stay"


async def poison_repeat(url: str, raw: Redis, queue: str, count: int, seed: int) -> str:
    """Specs and their counters: each fires, is put off or is removed; none keeps a good one from firing."""
    chance, tally, keys = random.Random(seed), Tally(), QueueKeys(queue)
    now = await server_ms(raw)
    names = {chance.choice([b"k%d" % n, poison.any_name(chance) + b"%d" % n]) for n in range(count)}
    due = {name: chance.choice([float("-inf"), 0, 1.5, now - 60_000, now]) for name in names}
    for start in range(0, count, PIPE):
        async with raw.pipeline(transaction=False) as pipe:
            for name in list(names)[start : start + PIPE]:
                spec_key = keys.spec("").encode() + name
                if chance.random() < 0.9:
                    pipe.hset(spec_key, "spec", poison.mutated(chance, poison.SPECS))
                    pipe.hset(spec_key, "fired", chance.choice([b"1", *poison.NUMBERS]))
                elif chance.random() < 0.5:
                    pipe.set(spec_key, b"no hash at all")
            await pipe.execute()
    await _zadd(raw, keys.repeat, due)
    async with consuming(url, queue, tally, **settings(count)):
        await until(lambda: _nothing_due(raw, keys.repeat, now), timeout_s=LIMIT_S)
        await _goes_on(url, queue, tally)
        await _settled(raw, queue)
    reasons = await dead_by_reason(raw, queue)
    put_off = await raw.zcard(keys.repeat)
    fired = tally.ran_well(reasons) + reasons.total()
    assert 0 < put_off < count
    assert fired > 0
    return f"{count} specs: {fired} fires, {put_off} put off, {count - put_off} ended or removed"


async def poison_results(url: str, raw: Redis, queue: str, count: int, seed: int) -> str:
    """Results and failure records: a value, or an error that says what is wrong."""
    chance, keys = random.Random(seed), QueueKeys(queue)
    outcomes: Counter[str] = Counter()
    async with await Producer.connect(url, ProducerConfig(queue_name=queue)) as producer:
        for start in range(0, count, PIPE):
            ids = [f"r{n}" for n in range(start, min(start + PIPE, count))]
            async with raw.pipeline(transaction=False) as pipe:
                for job_id in ids:
                    if chance.random() < 0.5:
                        pipe.set(keys.result(job_id), poison.mutated(chance, poison.RESULTS), ex=60)
                    else:
                        pipe.set(keys.failure(job_id), poison.mutated(chance, poison.FAILURES), ex=60)
                await pipe.execute()
            waits = (producer.wait_for_result(job_id, 30.0) for job_id in ids)
            for outcome in await asyncio.gather(*waits, return_exceptions=True):
                assert not isinstance(outcome, BaseException) or isinstance(outcome, ChasquiError), repr(outcome)
                outcomes[type(outcome).__name__ if isinstance(outcome, ChasquiError) else "value"] += 1
    assert outcomes.total() == count
    assert outcomes[DecodeError.__name__]
    return f"{count} records: {dict(outcomes)}"


async def poison_events(url: str, raw: Redis, queue: str, count: int, seed: int) -> str:
    """Entries of the events stream: a subscriber is given every one, and waiting for results goes on."""
    chance, keys, heard = random.Random(seed), QueueKeys(queue), 0
    async with (
        QueueEvents(queue, redis_url=url, last_event_id="0", block_ms=100) as events,
        await Producer.connect(url, ProducerConfig(queue_name=queue)) as producer,
    ):
        waiting = asyncio.create_task(producer.wait_for_result("job", LIMIT_S))
        listening = aiter(events)
        for start in range(0, count, PIPE):
            page = min(PIPE, count - start)
            async with raw.pipeline(transaction=False) as pipe:
                for _ in range(page):
                    pipe.xadd(keys.events, poison.event_entry(chance), maxlen=10 * PIPE)  # type: ignore[arg-type]
                await pipe.execute()
            for _ in range(page):
                event = await anext(listening)
                assert event.job_id is None or event.job_id
                heard += 1
        # Whatever the poison said of it, the job that is waited for ends when its result is there, or it is said dead.
        await raw.set(keys.result("job"), b"\x07", ex=60)
        assert (await asyncio.wait((waiting,), timeout=10))[0]
        assert isinstance(waiting.exception() or ChasquiError(), ChasquiError)
        await raw.set(keys.result("after"), b"\x2a", ex=60)
        assert await producer.wait_for_result("after", 10.0) == 42
        hub = producer._hub
        assert hub is not None
        assert [task for task in hub._tasks if task.done()] == []
    assert heard == count
    return f"{count} events: {heard} heard"


async def _goes_on(url: str, queue: str, tally: Tally) -> None:
    """Good jobs, for now and for later, run behind all the poison."""
    async with await Producer.connect(url, ProducerConfig(queue_name=queue, max_stream_len=10**8)) as producer:
        await producer.add({"good": "now"})
        await producer.add_in(0.05, {"good": "later"})
        await until(lambda: sorted(tally.good) == ["later", "now"], timeout_s=LIMIT_S)


async def _settled(raw: Redis, queue: str, never: int = 0) -> int:
    """Nothing waits or runs, and events do not quote more than they may; returns what is to be retried after the test.

    A mutated job may be one that fails, and asks for a retry in some days.
    """
    keys = QueueKeys(queue)
    soon = await server_ms(raw) + SOON_MS

    async def nothing_left() -> bool:
        async with raw.pipeline() as pipe:
            left: list[int] = await pipe.xlen(keys.stream).zcount(keys.delayed, "-inf", soon).execute()
        return left == [0, 0]

    await until(nothing_left, timeout_s=LIMIT_S)
    for _, fields in await raw.xrevrange(keys.events, count=1000):
        assert len(fields.get(b"reason", b"").decode()) <= MAX_ERROR_CHARS
    later = int(await raw.zcard(keys.delayed)) - never
    assert 0 <= later <= MOST_LATER
    return later


async def _room(raw: Redis, stream: str) -> bool:
    return await raw.xlen(stream) < 20 * PIPE


async def _nothing_due(raw: Redis, repeat: str, now: int) -> bool:
    return await raw.zcount(repeat, "-inf", now) == 0


async def _zadd(raw: Redis, key: str, members: dict[bytes, float]) -> None:
    pairs = list(members.items())
    for start in range(0, len(pairs), PIPE):
        await raw.zadd(key, dict(pairs[start : start + PIPE]))


def _listed(reasons: Counter[bytes]) -> str:
    return ", ".join(f"{count} {reason.decode()}" for reason, count in reasons.most_common())
