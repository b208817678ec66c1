"""The list of jobs that completed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Queue

if TYPE_CHECKING:
    from redis.asyncio import Redis


def events_key(queue: Queue) -> str:
    return queue.stream_key.replace(":stream", ":events")


async def ended(raw: Redis, queue: Queue, count: int, *, between: int = 2) -> None:
    """Events of so many jobs, a second apart, with others between them."""
    for n in range(count):
        for k in range(between):
            await raw.xadd(events_key(queue), {"e": "active", "id": f"j{n}", "ts": "1"}, f"{1000 + n * 1000}-{k}")
        fields: Any = {"e": "completed", "id": f"j{n}", "ts": "1", "attempt": "2", "duration_us": "1500"}
        fields |= {"n": f"name-{n % 3}"} if n % 3 else {}
        await raw.xadd(events_key(queue), fields, f"{1000 + n * 1000}-{between}")


async def ids_of(queue: Queue, **wanted: Any) -> list[str]:
    found, before = [], None
    while True:
        page, before = await queue.list_completed(4, before=before, **wanted)
        assert len(page) <= 4
        found += [one.job_id for one in page]
        if before is None:
            return found


async def test_all_are_listed_the_newest_first_page_by_page(queue: Queue, raw: Redis) -> None:
    assert await queue.list_completed() == ([], None)
    await ended(raw, queue, 10)
    assert await ids_of(queue) == [f"j{n}" for n in range(9, -1, -1)]
    [newest], before = await queue.list_completed(1)
    assert (newest.job_id, newest.name, newest.attempt, newest.duration_ms, newest.at_ms) == ("j9", "", 2, 1.5, 10_000)
    assert before == newest.entry_id


async def test_those_of_a_name_and_a_time(queue: Queue, raw: Redis) -> None:
    await ended(raw, queue, 10)
    assert await ids_of(queue, name="name-1") == ["j7", "j4", "j1"]
    assert await ids_of(queue, name="none") == []
    assert await ids_of(queue, since_ms=9000) == ["j9", "j8"]
    assert await ids_of(queue, until_ms=2999) == ["j1", "j0"]
    assert await ids_of(queue, since_ms=3000, until_ms=6000, name="name-2") == ["j5", "j2"]


async def test_what_other_programs_wrote_is_listed_as_far_as_it_can_be_read(queue: Queue, raw: Redis) -> None:
    await raw.xadd(events_key(queue), {"e": "completed", "attempt": "many", "duration_us": "", "n": b"\xff"})
    [one], _ = await queue.list_completed()
    assert (one.job_id, one.attempt, one.duration_ms) == ("", None, None)


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"since_ms": "now"}, {"before": "yesterday"}, {"until_ms": -5}])
async def test_wrong_arguments_are_refused(queue: Queue, wrong: Any) -> None:
    with pytest.raises(ConfigError):
        await queue.list_completed(**wrong)
