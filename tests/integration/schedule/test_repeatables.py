"""Repeatable specs: storing, replacing, listing and removing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import (
    ConfigError,
    EncodeError,
    MissedFiresPolicy,
    Producer,
    Queue,
    RepeatableMeta,
    RepeatableSpec,
    RepeatPattern,
)
from chasqui_engine._redis.commands import repeatables
from chasqui_engine.codec.repeatable import decode_spec
from tests.support.queues import keys_of, server_ms

if TYPE_CHECKING:
    from redis.asyncio import Redis

HOURLY = RepeatPattern.every(3_600_000)
NIGHTLY = RepeatPattern.cron("0 3 * * *", tz="Europe/Berlin")


def spec_key(queue_name: str, key: str) -> str:
    return f"{{chasqui:{queue_name}}}:repeat:spec:{key}"


async def test_upsert_stores_the_spec_and_its_first_fire(producer: Producer, raw: Redis, queue_name: str) -> None:
    spec = RepeatableSpec("report", HOURLY, {"to": ["a"]}, limit=3, missed_fires=MissedFiresPolicy.fire_all(5))
    before = await server_ms(raw)
    assert await producer.upsert_repeatable(spec) == "report::every:3600000"
    after = await server_ms(raw)
    stored = await raw.hgetall(spec_key(queue_name, "report::every:3600000"))
    assert stored.keys() == {b"spec"}
    assert decode_spec(stored[b"spec"]) == spec.with_key("report::every:3600000")
    [(key, first)] = await raw.zrange(f"{{chasqui:{queue_name}}}:repeat", 0, -1, withscores=True)
    assert key == b"report::every:3600000"
    assert before + 3_600_000 <= first <= after + 3_600_000


async def test_upsert_of_the_same_key_replaces(producer: Producer, raw: Redis, queue_name: str) -> None:
    await producer.upsert_repeatable(RepeatableSpec("a", HOURLY, 1, key="k"))
    await raw.hset(spec_key(queue_name, "k"), "fired", 4)
    await producer.upsert_repeatable(RepeatableSpec("b", NIGHTLY, 2, key="k", limit=9))
    [meta] = await producer.list_repeatable()
    assert (meta.key, meta.job_name, meta.pattern, meta.limit) == ("k", "b", NIGHTLY, 9)
    # As with ChasquiMQ, a spec that is stored again goes on counting its fires.
    assert await raw.hget(spec_key(queue_name, "k"), "fired") == b"4"


@pytest.mark.parametrize("pattern", [HOURLY, NIGHTLY], ids=["every", "cron"])
async def test_the_same_pattern_again_keeps_the_fire_that_is_due(
    producer: Producer, raw: Redis, queue_name: str, pattern: RepeatPattern
) -> None:
    """Programs say the same at every start: that must not put off, again and again, what should have fired."""
    repeat = f"{{chasqui:{queue_name}}}:repeat"
    key = await producer.upsert_repeatable(RepeatableSpec("a", pattern, 1))
    due = await server_ms(raw) - 5_000
    await raw.zadd(repeat, {key: due})
    policy = MissedFiresPolicy.fire_once()
    await producer.upsert_repeatable(RepeatableSpec("a", pattern, "changed", limit=9, missed_fires=policy))
    [meta] = await producer.list_repeatable()
    assert (meta.next_fire_ms, meta.limit, meta.missed_fires) == (due, 9, policy)


async def test_another_pattern_or_start_fires_anew(producer: Producer, raw: Redis, queue_name: str) -> None:
    repeat, now_ms = f"{{chasqui:{queue_name}}}:repeat", await server_ms(raw)
    spec = RepeatableSpec("a", HOURLY, 1, key="k")
    for other in (spec.with_start_after_ms(now_ms + 60_000), RepeatableSpec("a", NIGHTLY, 1, key="k")):
        await producer.upsert_repeatable(spec)
        await raw.zadd(repeat, {"k": now_ms - 5_000})
        await producer.upsert_repeatable(other)
        [meta] = await producer.list_repeatable()
        assert meta.next_fire_ms > now_ms


async def test_a_fire_between_looking_and_storing_is_not_made_again(
    producer: Producer, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat, now_ms = f"{{chasqui:{queue_name}}}:repeat", await server_ms(raw)
    key = await producer.upsert_repeatable(RepeatableSpec("a", HOURLY, 1))
    await raw.zadd(repeat, {key: now_ms - 5_000})
    look = repeatables.read_next_fire

    async def look_and_fire(*args: Any) -> repeatables.StoredFire:
        found = await look(*args)
        await raw.zadd(repeat, {key: now_ms + 3_000})
        return found

    monkeypatch.setattr(repeatables, "read_next_fire", look_and_fire)
    await producer.upsert_repeatable(RepeatableSpec("a", HOURLY, 2))
    [meta] = await producer.list_repeatable()
    assert meta.next_fire_ms == now_ms + 3_000


async def test_large_specs_are_listed_page_by_page(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeatables, "_PAGE_BYTES", 2000)
    for n in range(7):
        await producer.upsert_repeatable(RepeatableSpec("j", HOURLY, "x" * (900 if n % 2 else 3000), key=f"k{n}"))
    assert sorted(meta.key for meta in await producer.list_repeatable()) == [f"k{n}" for n in range(7)]
    assert len(await producer.list_repeatable(5)) == 5


async def test_specs_that_cannot_be_read_do_not_hide_those_behind_them(
    producer: Producer, raw: Redis, queue_name: str
) -> None:
    for n in range(5):
        await producer.upsert_repeatable(RepeatableSpec("j", HOURLY, n, key=f"k{n}"))
    await raw.zadd(f"{{chasqui:{queue_name}}}:repeat", {f"bad{n}": n for n in range(150)})
    assert [meta.key for meta in await producer.list_repeatable(3)] == ["k0", "k1", "k2"]
    assert len(await producer.list_repeatable()) == 5


async def test_the_list_is_in_the_order_of_the_fires(producer: Producer, queue: Queue, raw: Redis) -> None:
    now_ms = await server_ms(raw)
    for n in (3, 1, 2):
        start = now_ms + n * 1_000_000
        await producer.upsert_repeatable(RepeatableSpec("j", HOURLY, n, key=f"k{n}", start_after_ms=start))
    metas = await producer.list_repeatable()
    assert metas == await queue.get_repeatable_jobs()
    assert metas[0] == RepeatableMeta(
        key="k1",
        job_name="j",
        pattern=HOURLY,
        next_fire_ms=now_ms + 1_000_000 + 3_600_000,
        start_after_ms=now_ms + 1_000_000,
    )
    assert [meta.key for meta in metas] == ["k1", "k2", "k3"]
    assert [meta.key for meta in await producer.list_repeatable(2)] == ["k1", "k2"]
    assert await queue.get_repeatable_jobs(0) == []


async def test_the_list_shows_a_hundred_unless_told_otherwise(producer: Producer) -> None:
    for n in range(105):
        await producer.upsert_repeatable(RepeatableSpec("j", HOURLY, n, key=f"k{n}"))
    assert len(await producer.list_repeatable()) == 100
    assert len(await producer.list_repeatable(200)) == 105


@pytest.mark.parametrize(
    "policy", [MissedFiresPolicy.skip(), MissedFiresPolicy.fire_once(), MissedFiresPolicy.fire_all(7)], ids=str
)
async def test_the_policy_is_listed(producer: Producer, policy: MissedFiresPolicy) -> None:
    await producer.upsert_repeatable(RepeatableSpec("j", HOURLY, 1, missed_fires=policy))
    [meta] = await producer.list_repeatable()
    assert meta.missed_fires == (None if policy.kind == "skip" else policy)


async def test_specs_that_cannot_be_read_do_not_hide_the_others(
    producer: Producer, raw: Redis, queue_name: str
) -> None:
    await producer.upsert_repeatable(RepeatableSpec("j", HOURLY, 1, key="fine"))
    await raw.zadd(f"{{chasqui:{queue_name}}}:repeat", {"no hash": 1, "garbage": 2, "a list": 3, "endless": "inf"})
    await raw.hset(spec_key(queue_name, "garbage"), "spec", b"\xc1")
    await raw.rpush(spec_key(queue_name, "a list"), "x")
    assert [meta.key for meta in await producer.list_repeatable()] == ["fine"]


async def test_remove(producer: Producer, queue: Queue, raw: Redis, queue_name: str) -> None:
    for key in ("a", "b"):
        await producer.upsert_repeatable(RepeatableSpec("j", HOURLY, 1, key=key))
    assert await producer.remove_repeatable("a")
    assert not await producer.remove_repeatable("a")
    assert await queue.remove_repeatable_by_key("b")
    assert not await queue.remove_repeatable_by_key("b")
    assert await keys_of(raw, queue_name) == set()


async def test_upsert_by_the_queue(queue: Queue, raw: Redis, queue_name: str) -> None:
    now_ms = await server_ms(raw)
    job = await queue.upsert_repeatable_job(
        "mail",
        {"a": 1},
        repeat=NIGHTLY,
        limit=5,
        start_after_ms=now_ms,
        end_before_ms=now_ms + 10**9,
        missed_fires={"kind": "fire-all", "max_catchup": 2},
    )
    assert (job.id, job.name, job.data) == ("mail::cron:0 3 * * *:Europe/Berlin", "mail", {"a": 1})
    [meta] = await queue.get_repeatable_jobs()
    assert (meta.limit, meta.start_after_ms, meta.end_before_ms) == (5, now_ms, now_ms + 10**9)
    assert meta.missed_fires == MissedFiresPolicy.fire_all(2)
    stored = decode_spec(await raw.hget(spec_key(queue_name, job.id), "spec"))
    assert stored.payload == {"a": 1}


@pytest.mark.parametrize(
    "repeat", [RepeatPattern.every(60_000), {"kind": "every", "interval_ms": 60_000}], ids=["pattern", "dict"]
)
async def test_add_with_repeat_stores_a_spec(queue: Queue, raw: Redis, queue_name: str, repeat: Any) -> None:
    job = await queue.add("n", 1, repeat=repeat, missed_fires=MissedFiresPolicy.fire_once())
    assert job.id == "n::every:60000"
    [meta] = await queue.get_repeatable_jobs()
    assert meta.missed_fires == MissedFiresPolicy.fire_once()
    assert not await raw.exists(f"{{chasqui:{queue_name}}}:stream")
    cron = await queue.add("n", 1, repeat={"kind": "cron", "expression": "0 * * * *", "tz": "Z"})
    assert cron.id == "n::cron:0 * * * *:Z"


BAD: dict[str, tuple[type[Exception], str, Any]] = {
    "limit of none": (ConfigError, "limit", lambda queue: queue.upsert_repeatable_job("n", 1, repeat=HOURLY, limit=0)),
    "an end before the first fire": (
        ConfigError,
        "end_before_ms",
        lambda queue: queue.upsert_repeatable_job("n", 1, repeat=HOURLY, end_before_ms=5),
    ),
    "an end before the start": (
        ConfigError,
        "end_before_ms",
        lambda queue: queue.upsert_repeatable_job("n", 1, repeat=HOURLY, start_after_ms=9, end_before_ms=8),
    ),
    "a long name": (ConfigError, "name", lambda queue: queue.upsert_repeatable_job("x" * 257, 1, repeat=HOURLY)),
    "a payload that cannot be encoded": (
        EncodeError,
        "MessagePack",
        lambda queue: queue.upsert_repeatable_job("n", object(), repeat=HOURLY),
    ),
    "a payload that is too large": (
        EncodeError,
        "1048576 bytes",
        lambda queue: queue.upsert_repeatable_job("n", b"x" * 2**20, repeat=HOURLY),
    ),
    "a pattern of no kind": (ConfigError, "kind", lambda queue: queue.add("n", 1, repeat={})),
    "cron without an expression": (ConfigError, "expression", lambda queue: queue.add("n", 1, repeat={"kind": "cron"})),
    "every without an interval": (
        ConfigError,
        "interval_ms",
        lambda queue: queue.add("n", 1, repeat={"kind": "every"}),
    ),
    "an interval that is no number": (
        ConfigError,
        "interval_ms",
        lambda queue: queue.add("n", 1, repeat={"kind": "every", "interval_ms": "soon"}),
    ),
    "what is no pattern": (TypeError, "repeat", lambda queue: queue.add("n", 1, repeat="daily")),
    "what is no policy": (TypeError, "missed_fires", lambda queue: queue.add("n", 1, repeat=HOURLY, missed_fires=1)),
    "a policy of no kind": (
        ConfigError,
        "kind",
        lambda queue: queue.add("n", 1, repeat=HOURLY, missed_fires={"kind": "x"}),
    ),
    "a policy without repeat": (ConfigError, "missed_fires", lambda queue: queue.add("n", 1, missed_fires={})),
}


@pytest.mark.parametrize("what", BAD)
async def test_bad_input_is_named_and_nothing_is_stored(queue: Queue, raw: Redis, queue_name: str, what: str) -> None:
    error, field, call = BAD[what]
    with pytest.raises(error, match=field):
        await call(queue)
    assert await keys_of(raw, queue_name) == set()


async def test_a_key_that_is_no_text_is_named(producer: Producer) -> None:
    with pytest.raises(ConfigError, match="key"):
        await producer.upsert_repeatable(RepeatableSpec("n", HOURLY, 1, key="\ud800"))
