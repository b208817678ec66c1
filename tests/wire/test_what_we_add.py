"""What we write beyond ChasquiMQ's own: it reads and writes the same queue, and is none the worse for it.

Every entry of "What Chasqui adds" in docs/wire.md has its test here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import Consumer, ConsumerConfig, Job, JobFailedError, RetryLater
from chasqui_engine.codec.envelope import decode_failure, encode_envelope
from tests.support.waiting import until
from tests.wire.ours import served, wait_for_runs

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs

MINUTE_MS = 60_000


async def _dead(server: Redis, keys: QueueKeys, count: int) -> bool:
    return await server.xlen(keys.dlq) == count


async def _empty(server: Redis, keys: QueueKeys) -> bool:
    return await server.xlen(keys.stream) == 0


def named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["name"] == name]


async def test_a_failure_record(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """They bury, show and revive as if it were not there; our waiter has its answer from it."""
    job = await ours.add("n", {"bury": "no such address"})
    async with ours.working(result_ttl_secs=100):
        with pytest.raises(JobFailedError) as caught:
            await job.wait_for_result(timeout=10)
    assert (caught.value.reason, caught.value.attempt) == ("unrecoverable", 1)
    record = decode_failure(await server.get(keys.failure(job.id)))
    assert record == ("unrecoverable", "UnrecoverableError: no such address", 1)
    assert 90 < await server.ttl(keys.failure(job.id)) <= 100
    assert await theirs.get_job_result(job.id) is None
    assert await theirs.replay_dlq() == 1
    await theirs.work()
    await until(lambda: _dead(server, keys, 1))
    [run] = await theirs.runs()
    assert (run[0], run[3]) == (job.id, 0)


async def test_a_revival_of_ours_takes_the_failure_record_away(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    job = await ours.add("n", {"fail": "no luck", "times": 1}, attempts=1)
    async with ours.working():
        await until(lambda: _dead(server, keys, 1))
    assert await server.exists(keys.failure(job.id)) == 1
    assert await ours.replay_dlq() == 1
    assert await server.exists(keys.failure(job.id)) == 0
    await theirs.work(store_results=True)
    assert [run[3] for run in await theirs.wait_for_runs(1)] == [0]


async def test_ids_of_immediate_adds_are_taken_too(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """An id that we put on the stream is one they do not delay again; it is the mark they look for themselves."""
    for queue in (ours, ours):
        await queue.add("n", 1, job_id="id")
    assert await server.xlen(keys.stream) == 1
    assert await server.get(keys.taken("id")) == b"1"
    assert 3590 < await server.ttl(keys.taken("id")) <= 3600
    await theirs.add("n", 2, job_id="id", delay_ms=MINUTE_MS)
    assert await server.exists(keys.delayed, keys.delayed_index("id")) == 0
    await theirs.work()
    [run] = await theirs.wait_for_runs(1)
    assert run[:3] == ["id", "n", 1]


async def test_what_they_delayed_is_not_added_for_now(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    await theirs.add("n", 1, job_id="id", delay_ms=MINUTE_MS)
    await ours.add("n", 2, job_id="id")
    assert (await server.xlen(keys.stream), await server.zcard(keys.delayed)) == (0, 1)
    assert await theirs.cancel_delayed("id") is True
    await ours.add("n", 2, job_id="id")
    assert await server.xlen(keys.stream) == 1


async def test_an_event_for_a_delayed_add(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """In the form that their subscriber knows, though their producer never tells it."""
    await ours.add("late", 1, job_id="ours", delay_ms=MINUTE_MS)
    await theirs.add("late", 1, job_id="theirs", delay_ms=MINUTE_MS)
    await theirs.listen()
    [event] = await theirs.wait_for_event("delayed")
    assert (event["job_id"], event["job_name"], event["fields"]["delay_ms"]) == ("ours", "late", MINUTE_MS)
    assert await theirs.cancel_delayed("ours") is True


async def test_what_a_job_died_of(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """`detail` says it for every reason; they show it and revive the job with its limits."""
    await theirs.add("n", {"fail": "no luck"}, attempts=2, backoff=1)
    await theirs.add("n", {"bury": "no such address"})
    async with ours.working():
        await until(lambda: _dead(server, keys, 2))
    letters = await theirs.peek_dlq()
    details = {letter["reason"]: letter["detail"] for letter in letters}
    assert details == {
        "retries_exhausted": "ValueError: no luck",
        "unrecoverable": "UnrecoverableError: no such address",
    }
    assert await theirs.replay_dlq() == 2
    await theirs.work()
    await until(lambda: _dead(server, keys, 2))
    assert sorted(run[3] for run in await theirs.runs()) == [0, 0, 1]


async def test_the_name_of_what_could_not_be_read(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    await server.xadd(keys.stream, {"d": b"\xc1", "n": "mail"})
    async with ours.working(), ours.listening() as heard:
        await until(lambda: named(heard, "dlq"))
    [letter] = await theirs.peek_dlq()
    assert (letter["name"], letter["reason"], letter["payload"]) == ("mail", "decode_failed", b"\xc1")
    assert letter["detail"]
    assert await theirs.replay_dlq() == 0


async def test_a_failure_before_the_handler_ran_is_told(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """Where they tell `dlq` only, we tell `failed` before it, without a duration."""
    await server.xadd(keys.stream, {"d": encode_envelope("id", b"\xc1", 1), "n": "mail"})
    await theirs.listen()
    async with ours.working():
        heard = await theirs.wait_for_event("dlq")
    story = [event for event in heard if event["name"] in ("failed", "dlq")]
    assert [(event["name"], event["job_id"], event["job_name"]) for event in story] == [
        ("failed", "id", "mail"),
        ("dlq", "id", "mail"),
    ]
    assert story[0]["fields"].keys() == {"ts", "attempt", "reason"}
    assert [event["fields"]["attempt"] for event in story] == [0, 0]


async def test_a_result_of_nothing(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """Stored as nil: their reader says None, as for no result; our waiter returns at once."""
    job = await ours.add("n", {"value": None})
    async with ours.working(store_results=True):
        assert await job.wait_for_result(timeout=10) is None
    assert await server.get(keys.result(job.id)) == b"\xc0"
    assert await theirs.get_job_result(job.id) is None
    assert await theirs.get_job_result_bulk([job.id, "none"]) == [None, None]


async def test_waiting_of_a_promoted_job_has_its_name_and_comes_first(ours: Ours, theirs: Theirs) -> None:
    await theirs.add("late", 1, job_id="id", delay_ms=50)
    await theirs.listen()
    async with ours.working():
        heard = await theirs.wait_for_event("completed")
    story = [(event["name"], event["job_name"]) for event in heard if event["job_id"] == "id"]
    assert story == [("waiting", "late"), ("active", "late"), ("completed", "late")]


async def test_drained_is_told_when_the_last_job_ends(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """Once, with the end that empties the stream, and in its place; never while a job of theirs is still there."""
    jobs = [{"name": "n", "data": {"sleep": 0.02 * n}} for n in range(5)]
    await theirs.add_bulk(jobs)
    await theirs.listen()
    async with ours.working():
        await theirs.wait_for_event("drained")
        await ours.add_bulk(jobs)  # all at once, where theirs could be seen one by one
        heard = await theirs.wait_for_event("drained", 2)
    names = [event["name"] for event in heard if event["name"] in ("completed", "drained")]
    assert names == (["completed"] * 5 + ["drained"]) * 2


async def test_what_is_handed_back_is_theirs_at_once(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """A job that did not end before the deadline goes back under a new stream id, as it was."""
    await theirs.add("n", {"sleep": 1, "value": 1}, job_id="id")
    [(entry_id, fields)] = await server.xrange(keys.stream)
    async with ours.working(shutdown_deadline_secs=0.05) as runs:
        await wait_for_runs(runs, 1)
    [(new_id, same_fields)] = await server.xrange(keys.stream)
    assert new_id != entry_id
    assert same_fields == fields
    await theirs.work()
    [run] = await theirs.wait_for_runs(1)
    assert run[:4] == ["id", "n", {"sleep": 1, "value": 1}, 0]


async def test_a_worker_that_leaves_is_gone_from_the_group(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    async with ours.working(consumer_id="ours") as runs:
        await theirs.add("n", "for us")
        await wait_for_runs(runs, 1)
        await theirs.work(consumer_id="theirs")
        await until(lambda: _consumers(server, keys, {b"ours", b"theirs"}))
    assert await _consumers(server, keys, {b"theirs"})
    await ours.add("n", "for them")
    await until(lambda: _ran(theirs, "for them"))


async def _consumers(server: Redis, keys: QueueKeys, names: set[bytes]) -> bool:
    return {consumer["name"] for consumer in await server.xinfo_consumers(keys.stream, "default")} == names


async def _ran(theirs: Theirs, data: Any) -> bool:
    return any(run[2] == data for run in await theirs.runs())


async def test_a_job_that_runs_long_is_not_taken_by_them(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """The heartbeat is an XCLAIM to oneself: their worker, which claims after 200 ms, finds nothing to claim."""
    async with ours.working(claim_min_idle_ms=200) as runs:
        await theirs.add("n", {"sleep": 1.0, "value": 1})
        await wait_for_runs(runs, 1)
        await theirs.work(claim_min_idle_ms=200)
        await until(lambda: _empty(server, keys))
    assert len(runs) == 1
    assert await theirs.runs() == []


async def test_a_pause_is_ours_alone(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """Their workers do not look at the key; whatever they do with the queue, it stays until we resume."""
    await ours.pause()
    assert await server.get(keys.paused) == b"1"
    assert await server.ttl(keys.paused) == -1
    async with ours.working() as runs:
        await theirs.add("n", 1)
        await asyncio.sleep(0.5)
        assert runs == []
        await theirs.work()
        await theirs.wait_for_runs(1)
        assert runs == []
    assert await server.exists(keys.paused) == 1
    assert await ours.resume()


async def test_when_a_job_was_added_to_the_stream(ours: Ours, theirs: Theirs) -> None:
    """`active` of ours says it in a field that their subscriber passes on; theirs does not say it."""
    await theirs.listen()
    await theirs.add("n", 1, job_id="ours")
    async with ours.working():
        await theirs.wait_for_event("completed")
    await theirs.add("n", 2, job_id="theirs")
    await theirs.work()
    heard = await theirs.wait_for_event("completed", 2)
    by_us, by_them = named(heard, "active")
    assert by_us["fields"]["attempt"] == 1
    assert 0 <= int(by_us["fields"]["ts"]) - int(by_us["fields"]["enqueued_at_ms"]) < MINUTE_MS
    assert "enqueued_at_ms" not in by_them["fields"]


async def test_an_event_of_progress(ours: Ours, theirs: Theirs, redis86_url: str) -> None:
    """Their subscriber hears it like any other, and everything after it."""

    async def handler(job: Job) -> None:
        await job.update_progress({"done": 5})

    await theirs.listen()
    await theirs.add("mail", 1)
    config = ConsumerConfig(queue_name=ours.name, block_ms=50, run_scheduler=False)
    async with served(Consumer(redis86_url, config).run, handler):
        heard = await theirs.wait_for_event("completed")
    [event] = named(heard, "progress")
    assert (event["job_name"], event["fields"]["progress"]) == ("mail", '{"done":5}')
    assert [one["name"] for one in heard if one["job_id"]] == ["active", "progress", "completed"]


async def test_further_fields_of_an_entry_do_not_disturb_either(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """Trailing fields are how an entry may grow; the array inside may not: theirs refuses a longer envelope."""
    for n in range(20):
        await server.xadd(keys.stream, {"d": encode_envelope(f"id-{n}", b"\xc0", 1), "n": "n", "new": "field"})
    await theirs.work()
    async with ours.working() as runs:

        async def all_ran() -> bool:
            return len(runs) + len(await theirs.runs()) == 20

        await until(all_ran)
    assert await server.xlen(keys.dlq) == 0


async def test_keys_that_they_do_not_know(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """After a life of every kind there are no keys but those that docs/wire.md names."""
    await asyncio.gather(
        ours.add("n", 1, job_id="good"),
        ours.add("n", {"fail": "no luck"}, attempts=1, job_id="bad"),
        ours.add("n", 1, job_id="late", delay_ms=MINUTE_MS),
    )
    async with ours.working(store_results=True):
        await until(lambda: _dead(server, keys, 1))
        await until(lambda: _empty(server, keys))
        locked = {key.decode().removeprefix(keys.prefix) async for key in server.scan_iter(f"{keys.prefix}:*lock")}
    assert locked == {":promoter:lock"}
    kept = {key.decode().removeprefix(keys.prefix) async for key in server.scan_iter(f"{keys.prefix}:*")}
    counts = {name for name in kept if name.startswith((":tally:minute:", ":tally:hour:"))}
    assert len(counts) in (2, 3, 4)  # an hour or a day may have ended meanwhile
    assert kept - counts == {
        *(":stream", ":events", ":dlq", ":delayed"),
        *(":dlid:good", ":dlid:bad", ":dlid:late", ":didx:late"),
        *(":result:good", ":failure:bad"),
    }
    assert await theirs.replay_dlq() == 1
    await theirs.work(store_results=True, max_attempts=2)
    [run] = await theirs.wait_for_runs(1)
    assert run[0] == "bad"


async def test_a_jobs_log(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys, redis86_url: str) -> None:
    """A stream of its own, with the field and the time to live of newer versions of theirs; 1.3.0 leaves it alone."""

    async def fail(job: Job) -> None:
        job.log("ours: grüße")
        raise RetryLater(0.1)

    config = ConsumerConfig(
        queue_name=ours.name, block_ms=50, delayed_enabled=False, run_scheduler=False, result_ttl_secs=100
    )
    job = await ours.add("n", 7)
    async with served(Consumer(redis86_url, config).run, fail):
        await until(lambda: server.zcard(keys.delayed))
    await theirs.work(store_results=True)
    assert await job.wait_for_result(timeout=10) == 7
    [(_, fields)] = await server.xrange(keys.log(job.id))
    assert fields == {b"line": "ours: grüße".encode()}
    assert 80 < await server.ttl(keys.log(job.id)) <= 100
    # Theirs is read as ours is.
    await server.xadd(keys.log("other"), {"line": "theirs"})
    assert await ours.get_job_logs("other") == (["theirs"], 1)


@pytest.mark.parametrize("count", [False, True])
async def test_a_postponed_job(ours: Ours, theirs: Theirs, redis86_url: str, count: bool) -> None:
    """Their promoter brings what our handler postponed, and their worker runs it as the run that it is."""

    async def postpone(job: Job) -> None:
        raise RetryLater(0.5, count=count)

    config = ConsumerConfig(queue_name=ours.name, block_ms=50, delayed_enabled=False, run_scheduler=False)
    job = await ours.add("n", {"value": 7})
    await theirs.listen()
    async with served(Consumer(redis86_url, config).run, postpone):
        scheduled = named(await theirs.wait_for_event("retry-scheduled"), "retry-scheduled")
    await theirs.work()
    [run] = await theirs.wait_for_runs(1)
    assert (run[0], run[2], run[3]) == (job.id, {"value": 7}, int(count))
    assert [event["job_id"] for event in scheduled] == [job.id]
    assert named(await theirs.heard(), "failed") == []


async def test_a_name_for_an_add_that_may_be_sent_again(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """Ours and theirs are kept apart: nobody's job is taken for another's."""
    for n in range(3):
        await ours.add("ours", n)
        await theirs.add("theirs", n)
    facts = await server.xinfo_stream(keys.stream)
    assert (facts["iids-added"], facts["iids-duplicates"], facts["length"]) == (6, 0, 6)
    await theirs.work()
    assert sorted(run[1:3] for run in await theirs.wait_for_runs(6)) == [
        [n, k] for n in ("ours", "theirs") for k in range(3)
    ]


async def test_workers_that_are_listed(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """They work on the same queue, and neither read nor write the key."""
    async with ours.working(consumer_id="ours") as runs:
        await theirs.work(consumer_id="theirs")
        await until(lambda: server.exists(keys.workers))
        await ours.add_bulk([{"name": "n", "data": n} for n in range(10)])
        await until(lambda: _empty(server, keys))
        assert len(runs) + len(await theirs.runs()) == 10
        assert [name async for name, _ in server.hscan_iter(keys.workers)] == [b"ours"]
        assert {one.name: one.alive for one in (await ours.snapshot()).consumers} == {"ours": True, "theirs": None}
    assert await server.exists(keys.workers) == 0
