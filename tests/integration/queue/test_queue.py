"""The queue as people type it."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import (
    BackoffSpec,
    ConfigError,
    EncodeError,
    JobRetryOverride,
    Queue,
    RedisError,
    RepeatPattern,
    ShutdownError,
)
from tests.support.queues import delayed_jobs, keys_of, server_ms, waiting_jobs
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

HOUR_MS = 3_600_000
LAG_MS = 20_000


async def test_add_returns_the_job(queue: Queue, raw: Redis, queue_name: str) -> None:
    job = await queue.add("mail", {"to": "a"})
    assert (job.name, job.data, job.payload, job.attempt, job.attempts_made) == ("mail", {"to": "a"}, {"to": "a"}, 0, 0)
    assert await waiting_jobs(raw, queue_name) == [job]
    assert abs(job.created_at_ms - await server_ms(raw)) < LAG_MS
    assert queue.name == queue_name


BACKOFFS: dict[str, tuple[Any, BackoffSpec]] = {
    "milliseconds": (250, BackoffSpec.fixed(250)),
    "a spec": (BackoffSpec.exponential(10, max_ms=99), BackoffSpec.exponential(10, max_ms=99)),
    "its fields": ({"kind": "fixed", "delay_ms": 7, "jitter_ms": 2}, BackoffSpec.fixed(7, 2)),
}


@pytest.mark.parametrize("form", BACKOFFS)
async def test_attempts_and_backoff_become_the_jobs_own(queue: Queue, raw: Redis, queue_name: str, form: str) -> None:
    given, spec = BACKOFFS[form]
    await queue.add("n", 1, attempts=5, backoff=given)
    await queue.add("n", 1, backoff=given, delay_ms=HOUR_MS)
    await queue.add("n", 1, attempts=0)
    first, second = await waiting_jobs(raw, queue_name)
    [(later, _)] = await delayed_jobs(raw, queue_name)
    assert first.retry == JobRetryOverride(5, spec)
    assert later.retry == JobRetryOverride(None, spec)
    assert second.retry == JobRetryOverride(0, None)


DELAYS: dict[str, dict[str, Any]] = {
    "int": {"delay_ms": HOUR_MS},
    "float": {"delay_ms": HOUR_MS + 0.7},
    "timedelta": {"delay": timedelta(hours=1)},
    "aware": {"delay_ms": datetime.now(UTC) + timedelta(hours=1)},
    "naive is UTC": {"delay_ms": datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)},
}


@pytest.mark.parametrize("form", DELAYS)
async def test_a_delay_in_every_form(queue: Queue, raw: Redis, queue_name: str, form: str) -> None:
    delay = DELAYS[form]
    at = delay.get("delay_ms")
    job = await queue.add("n", 1, **delay)
    [(stored, run_at)] = await delayed_jobs(raw, queue_name)
    assert stored == job
    if isinstance(at, datetime):
        assert run_at == round(at.replace(tzinfo=UTC).timestamp() * 1000)
    else:
        assert 0 <= run_at - job.created_at_ms - HOUR_MS < LAG_MS


@pytest.mark.parametrize(
    "delay", [{"delay_ms": 0}, {"delay": timedelta()}, {"delay_ms": datetime(2020, 1, 1, tzinfo=UTC)}]
)
async def test_no_delay_is_now(queue: Queue, raw: Redis, queue_name: str, delay: dict[str, Any]) -> None:
    job = await queue.add("n", 1, **delay)
    assert await waiting_jobs(raw, queue_name) == [job]


async def test_add_unique(queue: Queue, raw: Redis, queue_name: str) -> None:
    jobs = [await queue.add_unique("n", n, job_id="one") for n in range(3)]
    later = [await queue.add_unique("n", n, job_id="two", delay=timedelta(hours=1), attempts=2) for n in range(3)]
    assert [job.id for job in jobs + later] == ["one"] * 3 + ["two"] * 3
    assert [job.data for job in await waiting_jobs(raw, queue_name)] == [0]
    assert [(job.data, job.retry) for job, _ in await delayed_jobs(raw, queue_name)] == [(0, JobRetryOverride(2))]


async def test_add_bulk_takes_all_that_add_takes(queue: Queue, raw: Redis, queue_name: str) -> None:
    jobs = await queue.add_bulk(
        [
            {"name": "plain", "data": 1},
            {"name": "later", "data": 2, "delay_ms": HOUR_MS, "job_id": "two"},
            {"data": 3, "attempts": 4, "backoff": 5},
            {"name": "again", "data": 4, "repeat": RepeatPattern.every(HOUR_MS), "missed_fires": {"kind": "fire-once"}},
            {"name": "much later", "data": 5, "delay": timedelta(hours=2)},
            {"name": "again", "data": 6, "repeat": {"kind": "cron", "expression": "0 4 * * *"}},
        ]
    )
    assert [job.data for job in jobs] == [1, 2, 3, 4, 5, 6]
    assert await waiting_jobs(raw, queue_name) == [jobs[0], jobs[2]]
    assert [job for job, _ in await delayed_jobs(raw, queue_name)] == [jobs[1], jobs[4]]
    assert jobs[2].retry == JobRetryOverride(4, BackoffSpec.fixed(5))
    assert {meta.key for meta in await queue.get_repeatable_jobs()} == {jobs[3].id, jobs[5].id}
    assert await queue.add_bulk([]) == []


LAST_OF_BULK: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "a payload that cannot be encoded": (EncodeError, "job 3 of 3", {"name": "n", "data": object()}),
    "the same, to repeat": (EncodeError, "MessagePack", {"data": object(), "repeat": RepeatPattern.every(1000)}),
    "an unknown field": (ConfigError, "delay_s", {"name": "n", "data": 1, "delay_s": 5}),
    "no data": (ConfigError, "data", {"name": "n"}),
    "no data to repeat": (ConfigError, "data", {"name": "n", "repeat": RepeatPattern.every(1000)}),
    "a long name": (ConfigError, "name", {"name": "x" * 257, "data": 1}),
    "a long name to repeat": (ConfigError, "name", {"name": "x" * 257, "data": 1, "repeat": RepeatPattern.every(9)}),
    "a blank id": (ConfigError, "job_id", {"name": "n", "data": 1, "job_id": " "}),
    "a negative delay": (ConfigError, "delay_ms", {"name": "n", "data": 1, "delay_ms": -1}),
    "a delay beyond the cap": (ConfigError, "max_delay_secs", {"name": "n", "data": 1, "delay": timedelta(days=31)}),
    "a pattern that is none": (ConfigError, "kind", {"name": "n", "data": 1, "repeat": {"kind": "often"}}),
    "a policy without repeat": (ConfigError, "missed_fires", {"name": "n", "data": 1, "missed_fires": {}}),
}


@pytest.mark.parametrize("last", LAST_OF_BULK)
async def test_a_bulk_with_one_bad_job_writes_nothing(queue: Queue, raw: Redis, queue_name: str, last: str) -> None:
    error, field, item = LAST_OF_BULK[last]
    with pytest.raises(error, match=field):
        await queue.add_bulk([{"name": "a", "data": 1}, {"name": "b", "data": 2, "delay_ms": 500}, item])
    assert await keys_of(raw, queue_name) == set()


async def test_one_queue_serves_many_tasks_with_one_connection(queue: Queue, raw: Redis, queue_name: str) -> None:
    jobs = await asyncio.gather(*(queue.add("n", n) for n in range(100)))
    assert sorted(job.data for job in await waiting_jobs(raw, queue_name)) == list(range(100))
    assert len({job.id for job in jobs}) == 100
    assert len([client for client in await raw.client_list() if client["name"].endswith(queue_name)]) == 1


async def test_cancel(queue: Queue, raw: Redis, queue_name: str) -> None:
    jobs = [await queue.add("n", 1, delay_ms=HOUR_MS), await queue.add("n", 2, delay_ms=HOUR_MS, job_id="own")]
    assert [await queue.cancel_delayed(job.id) for job in jobs] == [True, True]
    assert [await queue.cancel_delayed(job.id) for job in jobs] == [False, False]
    assert await delayed_jobs(raw, queue_name) == []


async def test_close_is_final_and_leaves_no_connection(redis_url: str, raw: Redis, queue_name: str) -> None:
    queue = Queue(queue_name, redis_url=redis_url)
    assert not queue.is_closed
    await queue.add("n", 1)
    await queue.close()
    await queue.close()
    assert queue.is_closed
    with pytest.raises(ShutdownError, match=queue_name):
        await queue.add("n", 2)

    async def nobody() -> bool:
        return not [client for client in await raw.client_list() if client["name"].endswith(queue_name)]

    await until(nobody)
    assert len(await waiting_jobs(raw, queue_name)) == 1


async def test_a_queue_counts_what_it_has_added_without_ids_that_were_taken(redis_url: str, queue_name: str) -> None:
    queue = Queue(queue_name, redis_url=redis_url)
    assert queue.added == 0
    await queue.add("n", 1, job_id="own")
    await queue.add("n", 1, job_id="own")
    await queue.add_bulk([{"name": "n", "data": 1, "job_id": job_id} for job_id in ("own", "other")])
    await queue.add("n", 1, delay_ms=HOUR_MS, job_id="later")
    assert queue.added == 3
    await queue.close()
    assert queue.added == 3


async def test_a_queue_that_was_never_used_closes_too(redis_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        pass
    assert queue.is_closed


async def test_a_server_that_is_not_there_is_named_and_can_come_later() -> None:
    queue = Queue("q", redis_url="redis://:secret@127.0.0.1:1/0")
    for _ in range(2):
        with pytest.raises(RedisError, match=r"127\.0\.0\.1:1") as refusal:
            await queue.add("n", 1)
        assert "secret" not in str(refusal.value)
    await queue.close()


LOOP_AFTER_LOOP = """
import asyncio, gc, sys
import redis
from chasqui_engine import Queue

url, name = sys.argv[1:]
queue = Queue(name, redis_url=url)
for n in range(4):
    asyncio.run(queue.add("n", n))
    gc.collect()
with redis.Redis.from_url(url) as client:
    print(len([one for one in client.client_list() if one["name"].endswith(name)]))
"""


async def test_one_queue_over_several_event_loops(redis_url: str, raw: Redis, queue_name: str) -> None:
    """In a process of its own, because what a program leaves open when its loop ends is cause for warnings."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOOP_AFTER_LOOP, redis_url, queue_name, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(40):
        connections, _ = await child.communicate()
    assert child.returncode == 0
    assert [job.data for job in await waiting_jobs(raw, queue_name)] == [0, 1, 2, 3]
    # What a loop that has ended held does not pile up.
    assert int(connections) <= 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_stream_len": 0}, "max_stream_len"),
        ({"max_stream_len": "many"}, "max_stream_len"),
        ({"max_delay_secs": -1}, "max_delay_secs"),
        ({"when_full": "panic"}, "when_full"),
        ({"dedup_ttl_secs": 0}, "dedup_ttl_secs"),
    ],
)
def test_a_setting_out_of_range_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        Queue("q", **options)


@pytest.mark.parametrize("name", ["", " ", "a{b}", "x" * 201, "a\nb", 5])
def test_a_name_that_cannot_be_a_queues_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="queue_name"):
        Queue(name)


@pytest.mark.parametrize("name", [[], {}, 7, None, b"n"])
async def test_a_name_that_is_no_text_is_refused_by_name(queue: Queue, name: Any) -> None:
    with pytest.raises(ConfigError, match="name must be a string"):
        await queue.add(name, 1)
    with pytest.raises(ConfigError, match="name must be a string"):
        await queue.add_bulk([{"name": name or [1], "data": 1}])
    assert (await queue.counts()).waiting == 0
