"""A name can never reach another queue's keys, nor another kind of key of its own queue."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chasqui_engine import ConfigError, Queue, RepeatPattern, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.consumers import consuming
from tests.support.queues import keys_of, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

hostile_text = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    st.lists(
        st.sampled_from(["{", "}", "chasqui:", ":", "stream", "repeat:spec:", "a", "b", "\0", "*", "\r\n", "result"]),
        max_size=8,
    ).map("".join),
)


def valid(name: str) -> bool:
    try:
        QueueKeys(name)
    except ConfigError:
        return False
    return True


def all_keys(queue: str, text: str) -> list[str]:
    keys = QueueKeys(queue)
    fixed = [keys.stream, keys.delayed, keys.dlq, keys.events, keys.repeat, keys.promoter_lock, keys.scheduler_lock]
    return [
        *fixed, keys.spec(text), keys.result(text), keys.failure(text), keys.taken(text), keys.delayed_index(text),
    ]  # fmt: skip


@given(ours=hostile_text, theirs=hostile_text, our_text=hostile_text, their_text=hostile_text)
@example(ours="a", theirs="a:x", our_text="x}:result:", their_text="")
@example(ours="a", theirs="b", our_text="{chasqui:b}:stream", their_text="")
def test_two_queues_never_share_a_key(ours: str, theirs: str, our_text: str, their_text: str) -> None:
    if ours == theirs or not (valid(ours) and valid(theirs)):
        return
    assert not set(all_keys(ours, our_text)) & set(all_keys(theirs, their_text))


@given(text=hostile_text, other=hostile_text)
def test_no_id_or_key_reaches_another_kind_of_key(text: str, other: str) -> None:
    one, two = all_keys("q", text), all_keys("q", other)
    assert len(set(one)) == len(one)
    for mine, kind in enumerate(one):
        for theirs, key in enumerate(two):
            assert mine == theirs or kind != key


@pytest.mark.parametrize(
    "template", ["{{chasqui:{0}}}:stream", "x}}:stream", "*", "../{0}", "\r\nSET {0} 1\r\n", "a\0b", ":" * 500]
)
async def test_hostile_ids_stay_in_their_queue(redis_url: str, raw: Redis, queue_name: str, template: str) -> None:
    """Added, delayed, cancelled, repeated, run with a result: under an id that tries to be somebody else's key."""
    victim, job_id = f"{queue_name}-victim", template.format(f"{queue_name}-victim")
    ran: list[str] = []

    async def handler(job: Job) -> str:
        ran.append(job.id)
        return "done"

    async with Queue(queue_name, redis_url=redis_url) as queue:
        job = await queue.add("n", 1, job_id=job_id)
        await queue.add("n", 1, job_id=job_id + "later", delay_ms=60_000)
        assert await queue.cancel_delayed(job_id + "later")
        spec = await queue.upsert_repeatable_job(job_id[:100], 1, repeat=RepeatPattern.every(60_000))
        async with working(Worker(queue_name, handler, redis_url=redis_url, store_results=True, read_block_ms=100)):
            assert await job.wait_for_result(timeout=10) == "done"
        assert await queue.remove_repeatable_by_key(spec.id)
    assert ran == [job_id]
    assert await keys_of(raw, victim) == set()
    ours = {key async for key in raw.scan_iter(match="*", count=5000) if queue_name.encode() in key}
    assert ours
    assert all(key.startswith(f"{{chasqui:{queue_name}}}:".encode()) for key in ours)


@pytest.mark.parametrize("name", ["a{b", "a}b", "{}", "a\nb", "a\0b", "", " ", "x" * 201, "é" * 101])
async def test_names_that_could_are_refused_everywhere(name: str) -> None:
    async def handler(job: Job) -> None: ...

    with pytest.raises(ConfigError):
        Queue(name)
    with pytest.raises(ConfigError):
        Worker(name, handler)
    for field in ("group", "consumer_id"):
        with pytest.raises(ConfigError):
            Worker("q", handler, **{field: name})  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["fails", "is claimed by another"])
async def test_a_name_or_an_id_cannot_forge_a_line_of_the_log(
    redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    forged = "a\nERROR all is lost\x1b[2J"
    stream = QueueKeys(queue_name).stream

    async def handler(job: Job) -> None:
        if way == "fails":
            raise ValueError("no")
        [entry] = await raw.xpending_range(stream, "default", "-", "+", 1)
        await raw.xclaim(stream, "default", "another", 0, [entry["message_id"]])

    with caplog.at_level(logging.DEBUG, logger="chasqui"):
        async with (
            Queue(queue_name, redis_url=redis_url) as queue,
            consuming(redis_url, queue_name, handler, max_attempts=1),
        ):
            await queue.add(forged, 1, job_id=forged)
            await until(lambda: "all is lost" in caplog.text)
    told = [record.getMessage() for record in caplog.records if "all is lost" in record.getMessage()]
    assert told
    assert not any("\n" in line or "\x1b" in line for line in told)
