"""The promoter: what is due by the server's clock goes to the stream, once, and is told before it can run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import AddOptions, Producer, Promoter, PromoterConfig, Queue, Worker
from chasqui_engine._redis.commands import delayed
from chasqui_engine.codec.envelope import encode_delayed, encode_envelope
from chasqui_engine.metrics import InMemorySink, LockOutcome, MetricsSink, PromoterTick
from tests.support.queues import delayed_jobs, events_of, keys_of, running, server_ms, waiting_jobs, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

QUICK = PromoterConfig(poll_interval_ms=5)


async def test_only_what_is_due_is_promoted(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    soon = await producer.add_in_with_options(0.05, {"a": 1}, AddOptions(id="soon", name="n"))
    await producer.add_in(600, "later")
    async with running(Promoter(redis_url, queue_name, QUICK).run):
        await until(lambda: raw.xlen(producer.stream_key))
        now_ms = await server_ms(raw)
    [job] = await waiting_jobs(raw, queue_name)
    assert (job.id, job.payload, job.name, job.attempt) == (soon, {"a": 1}, "n", 0)
    assert now_ms >= job.created_at_ms
    assert [job.payload for job, _ in await delayed_jobs(raw, queue_name)] == ["later"]
    assert f"{{chasqui:{queue_name}}}:didx:soon" not in await keys_of(raw, queue_name)


async def test_nothing_is_promoted_early(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    delays_s = (0.05, 0.08, 0.14)
    for delay_s in delays_s:
        await producer.add_in(delay_s, delay_s)
    due = {job.payload: run_at for job, run_at in await delayed_jobs(raw, queue_name)}
    async with running(Promoter(redis_url, queue_name, QUICK).run):
        await until(lambda: _count(raw, producer.stream_key, 3))
    promoted_at = [int(entry_id.split(b"-")[0]) for entry_id, _ in await raw.xrange(producer.stream_key)]
    jobs = await waiting_jobs(raw, queue_name)
    assert [job.payload for job in jobs] == list(delays_s)
    assert all(at >= due[job.payload] for at, job in zip(promoted_at, jobs, strict=True))


async def _count(raw: Redis, stream: str, wanted: int) -> bool:
    return bool(await raw.xlen(stream) == wanted)


async def test_a_promoted_job_tells_waiting_with_its_name(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    await producer.add_in_with_options(0.01, 1, AddOptions(id="a", name="mail"))
    async with running(Promoter(redis_url, queue_name, QUICK).run):
        await until(lambda: raw.xlen(producer.stream_key))
    assert await events_of(raw, queue_name) == [
        {"e": "delayed", "id": "a", "n": "mail", "delay_ms": "10"},
        {"e": "waiting", "id": "a", "n": "mail"},
    ]


async def test_waiting_comes_before_any_active(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    ran: list[str] = []

    async def note(job: Job) -> None:
        ran.append(job.id)

    async with working(Worker(queue_name, note, redis_url=redis_url, read_block_ms=50)):
        jobs = await queue.add_bulk([{"name": f"n{n}", "data": n, "delay_ms": 10 + n % 20} for n in range(200)])
        await until(lambda: len(ran) == 200)

        async def all_told() -> bool:
            return sum(event["e"] == "completed" for event in await events_of(raw, queue_name)) == 200

        await until(all_told)
    told: dict[str, list[tuple[str, str]]] = {}
    for event in await events_of(raw, queue_name):
        told.setdefault(event["id"], []).append((event["e"], event.get("n", "")))
    for n, job in enumerate(jobs):
        kinds = ["delayed", "waiting", "active", "completed"]
        assert told[job.id] == [(kind, f"n{n}") for kind in kinds]


async def test_events_can_be_off(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    await producer.add_in(0.01, 1)
    config = PromoterConfig(poll_interval_ms=5, events_enabled=False)
    async with running(Promoter(redis_url, queue_name, config).run):
        await until(lambda: raw.xlen(producer.stream_key))
    assert [event["e"] for event in await events_of(raw, queue_name)] == ["delayed"]


async def test_many_due_jobs_are_worked_off_without_a_pause(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    await producer.add_in_bulk(0.001, range(3000))
    config = PromoterConfig(poll_interval_ms=60_000, promote_batch=100)
    async with running(Promoter(redis_url, queue_name, config).run):
        # Thirty batches, in less than one poll interval in all.
        await until(lambda: _count(raw, producer.stream_key, 3000), timeout_s=50)
    assert {job.payload for job in await waiting_jobs(raw, queue_name)} == set(range(3000))


@pytest.mark.parametrize("batch", [1, 5000])
async def test_any_batch_size_works(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str, batch: int
) -> None:
    jobs = min(5000, batch * 20)
    await producer.add_in_bulk(0.001, range(jobs))
    config = PromoterConfig(poll_interval_ms=5, promote_batch=batch)
    async with running(Promoter(redis_url, queue_name, config).run):
        await until(lambda: _count(raw, producer.stream_key, jobs))


async def test_what_is_due_before_the_next_poll_is_not_late(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    await producer.add_in(0.3, 1)
    [(_, run_at)] = await delayed_jobs(raw, queue_name)
    async with running(Promoter(redis_url, queue_name, PromoterConfig(poll_interval_ms=10_000)).run):
        await until(lambda: raw.xlen(producer.stream_key))
    [(entry_id, _)] = await raw.xrange(producer.stream_key)
    assert 0 <= int(entry_id.split(b"-")[0]) - run_at < 5000


async def test_two_promoters_at_once_never_duplicate(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    """Both believe to lead: the lock is taken from the one and given to the other again and again."""
    await producer.add_in_bulk(0.02, range(2000))
    config = PromoterConfig(poll_interval_ms=1, promote_batch=50, lock_ttl_secs=1)
    lock = f"{{chasqui:{queue_name}}}:promoter:lock"
    async with (
        running(Promoter(redis_url, queue_name, config).run),
        running(Promoter(redis_url, queue_name, PromoterConfig(poll_interval_ms=1, promote_batch=50)).run),
    ):

        async def unlocked_and_done() -> bool:
            await raw.delete(lock)
            return bool(await raw.xlen(producer.stream_key) >= 2000)

        await until(unlocked_and_done, every_s=0.002)
    assert sorted(job.payload for job in await waiting_jobs(raw, queue_name)) == list(range(2000))


async def test_members_that_cannot_be_read_stop_nobody(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    garbage = [b"\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00not an envelope", b"\x02\x00\x00\x00\xff\xfe\x90"]
    await raw.zadd(producer.delayed_key, dict.fromkeys(garbage, 1))
    await producer.add_in(0.01, "fine")
    async with running(Promoter(redis_url, queue_name, QUICK).run):
        await until(lambda: _count(raw, producer.stream_key, 5))
    envelopes = {fields[b"d"] for _, fields in await raw.xrange(producer.stream_key)}
    # What cannot be taken apart is left whole, for the worker to bury.
    assert {b"\x00", b"\xff\xff\xff\xff", b"not an envelope", b"\x90"} < envelopes
    assert not await raw.exists(producer.delayed_key)


async def test_large_jobs_are_promoted_without_leaving_the_server(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    """Sent to the promoter and back, a few hundred of these took longer than any reply is waited for."""
    for n in range(40):
        await producer.add_in(0.001, bytes([n]) * 2**20)
    await producer.add_in(0.002, "small, due after them")
    before = await raw.info("stats")
    async with running(Promoter(redis_url, queue_name, QUICK).run):
        await until(lambda: _count(raw, producer.stream_key, 41))
    after = await raw.info("stats")
    moved = {way: after[f"total_net_{way}_bytes"] - before[f"total_net_{way}_bytes"] for way in ("input", "output")}
    assert max(moved.values()) < 2**20
    jobs = await waiting_jobs(raw, queue_name)
    assert [job.payload for job in jobs] == [*(bytes([n]) * 2**20 for n in range(40)), "small, due after them"]


async def test_a_round_ends_with_so_many_bytes(producer: Producer, raw: Redis) -> None:
    for _ in range(10):
        await producer.add_in(0.001, b"x" * 2**20)
    await producer.add_in_bulk(0.002, range(300))
    await asyncio.sleep(0.01)
    link, keys = producer._link, producer._keys
    first = await delayed.due(link, keys, 256)
    assert (len(first.job_ids), first.more) == (4, True)
    assert (await delayed.promote(link, keys, first, events_max=100)).count == 4
    assert await raw.xlen(producer.stream_key) == 4


async def test_what_came_before_those_that_were_due_waits_for_the_next_round(producer: Producer, raw: Redis) -> None:
    ids = await producer.add_in_bulk(0.001, range(3))
    await asyncio.sleep(0.01)
    link, keys = producer._link, producer._keys
    announced = await delayed.due(link, keys, 256)
    assert announced.job_ids == [job_id.encode() for job_id in ids]
    early = encode_delayed("", encode_envelope("early", b"\xc0", 1))
    await raw.zadd(keys.delayed, {early: 1})
    assert (await delayed.promote(link, keys, announced, events_max=100)).count == 0
    again = await delayed.due(link, keys, 256)
    assert again.job_ids == [b"early", *announced.job_ids]
    assert (await delayed.promote(link, keys, again, events_max=100)).count == 4
    # Sent a second time, as after an answer that was lost, it finds nothing to move.
    assert (await delayed.promote(link, keys, again, events_max=100)).count == 0


async def test_names_and_ids_that_nobody_can_add_are_not_told(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    members = [
        encode_delayed("n" * 100_000, encode_envelope("a", b"\xc0", 1)),
        encode_delayed("b", encode_envelope("i" * 2000, b"\xc0", 1)),
        encode_delayed("c", encode_envelope("i" * 1024, b"\xc0", 1)),
    ]
    await raw.zadd(producer.delayed_key, {member: n for n, member in enumerate(members)})
    async with running(Promoter(redis_url, queue_name, QUICK).run):
        await until(lambda: _count(raw, producer.stream_key, 3))
    assert await events_of(raw, queue_name) == [
        {"e": "waiting", "id": "a"},
        {"e": "waiting", "id": "", "n": "b"},
        {"e": "waiting", "id": "i" * 1024, "n": "c"},
    ]
    assert [len(fields.get(b"n", b"")) for _, fields in await raw.xrange(producer.stream_key)] == [100_000, 1, 1]


async def test_the_lag_is_that_of_the_first_job_left_when_a_pass_moves_only_some(
    producer: Producer, redis_url: str, queue_name: str
) -> None:
    sink = InMemorySink()
    await producer.add_in_bulk(0.01, range(3))
    await asyncio.sleep(0.3)
    config = PromoterConfig(poll_interval_ms=5, promote_batch=2, metrics=sink)
    async with running(Promoter(redis_url, queue_name, config).run):
        await until(lambda: len(sink.events(PromoterTick)) > 2)
    first, second = sink.events(PromoterTick)[:2]
    assert (first.promoted, first.depth) == (2, 1)
    assert first.oldest_pending_lag_ms >= 200
    assert (second.promoted, second.depth, second.oldest_pending_lag_ms) == (1, 0, 0)


async def test_metrics_say_what_was_done(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    ticks: list[PromoterTick] = []
    locks: list[LockOutcome] = []

    class Sink(MetricsSink):
        def promoter_tick(self, tick: PromoterTick) -> None:
            ticks.append(tick)
            raise RuntimeError("a sink that raises disturbs nobody")

        def promoter_lock_outcome(self, outcome: LockOutcome) -> None:
            locks.append(outcome)

    await producer.add_in_bulk(0.01, range(3))
    await producer.add_in(600, 1)
    await asyncio.sleep(0.1)  # all three are late, and none is left by the pass that moves them
    config = PromoterConfig(poll_interval_ms=5, metrics=Sink())
    async with running(Promoter(redis_url, queue_name, config).run):
        await until(lambda: sum(tick.promoted for tick in ticks) == 3)
        await until(lambda: ticks[-1].promoted == 0)
        other = InMemorySink()
        async with running(Promoter(redis_url, queue_name, PromoterConfig(poll_interval_ms=5, metrics=other)).run):
            await asyncio.sleep(0.05)
    assert (ticks[-1].depth, ticks[-1].oldest_pending_lag_ms) == (1, 0)
    assert [(tick.depth, tick.oldest_pending_lag_ms) for tick in ticks if tick.promoted] == [(1, 0)]
    assert locks == [LockOutcome.ACQUIRED]
    assert [job.payload for job in await waiting_jobs(raw, queue_name)] == [0, 1, 2]
