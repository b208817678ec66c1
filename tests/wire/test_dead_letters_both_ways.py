"""Dead letters: what one engine buries, the other shows and revives."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.codec.envelope import decode_job, encode_envelope, with_attempt
from tests.support.waiting import until
from tests.wire.ours import wait_for_runs

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs


async def fill(queue: Any, server: Redis, keys: QueueKeys) -> None:
    """Five entries, each of which dies of something else."""
    await queue.add("unrecoverable", {"bury": "no such address"})
    await queue.add("retries_exhausted", {"fail": "no luck"}, attempts=2, backoff=1)
    await server.xadd(keys.stream, {"d": b"\xc1", "n": "decode_failed"})
    await server.xadd(keys.stream, {"x": b"", "n": "malformed"})
    await queue.add("oversize_payload", "x" * 3000)


async def bury_by(engine: str, ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys, count: int) -> None:
    if engine == "theirs":
        await theirs.work(max_payload_bytes=2000)
        await until(lambda: _dead(server, keys, count))
        await theirs.stop()
    else:
        async with ours.working(max_payload_bytes=2000):
            await until(lambda: _dead(server, keys, count))


async def _dead(server: Redis, keys: QueueKeys, count: int) -> bool:
    return await server.xlen(keys.dlq) == count


@pytest.mark.parametrize("engine", ["ours", "theirs"])
async def test_both_see_the_same_letters(
    engine: str, ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    await fill(ours if engine == "theirs" else theirs, server, keys)
    await bury_by(engine, ours, theirs, server, keys, 5)
    letters = await ours.peek_dlq()
    assert letters == await theirs.peek_dlq()
    assert await ours.peek_dlq(2) == await theirs.peek_dlq(2) == letters[:2]
    reasons = {letter["reason"] for letter in letters}
    assert reasons == {"unrecoverable", "retries_exhausted", "decode_failed", "malformed", "oversize_payload"}
    for letter in letters:
        # Theirs drops the name of what it could not read.
        assert letter["name"] == letter["reason"] or (engine == "theirs" and letter["name"] == "")


async def test_both_write_the_same_fields_in_the_same_order(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    letters = []
    for engine in ("ours", "theirs"):
        await ours.add("unrecoverable", {"bury": "no such address"})
        [(source_id, added)] = await server.xrange(keys.stream)
        await bury_by(engine, ours, theirs, server, keys, 1)
        [(_, fields)] = await server.xrange(keys.dlq)
        assert fields[b"source_id"] == source_id
        assert (fields[b"d"], fields[b"n"], fields[b"reason"]) == (added[b"d"], added[b"n"], b"unrecoverable")
        letters.append(list(fields))
        await server.delete(keys.dlq)
    # What failed, we say in a field of its own, after all that they know.
    assert letters == [[b"d", b"n", b"source_id", b"reason", b"detail"], [b"d", b"n", b"source_id", b"reason"]]


@pytest.mark.parametrize(("buries", "replays"), [("ours", "theirs"), ("theirs", "ours")])
async def test_one_revives_what_the_other_buried(
    buries: str, replays: str, ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """With a fresh count of runs, and with override and name as they were."""
    backoff = {"kind": "exponential", "delay_ms": 1, "multiplier": 1.5, "jitter_ms": 0}
    await ours.add("発送", {"fail": "no luck"}, attempts=2, backoff=backoff)
    [(_, added)] = await server.xrange(keys.stream)
    await bury_by(buries, ours, theirs, server, keys, 1)
    assert await (ours if replays == "ours" else theirs).replay_dlq() == 1
    [(_, revived)] = await server.xrange(keys.stream)
    assert revived == added
    assert await server.xlen(keys.dlq) == 0


@pytest.mark.parametrize(("buries", "runs"), [("ours", "theirs"), ("theirs", "ours")])
async def test_what_was_revived_runs(
    buries: str, runs: str, ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    envelope = with_attempt(encode_envelope("id", b"\xa5again", 1), 7)
    dead = {"d": envelope, "n": "revived", "source_id": "1-1", "reason": "retries_exhausted"}
    await server.xadd(keys.dlq, dead)
    assert await (ours if buries == "ours" else theirs).replay_dlq(10) == 1
    if runs == "theirs":
        await theirs.work()
        [run] = await theirs.wait_for_runs(1)
    else:
        async with ours.working() as our_runs:
            [run] = await wait_for_runs(our_runs, 1)
    assert run == ["id", "revived", "again", 0, 1]


async def test_two_replays_at_once_move_each_letter_once(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    for n in range(200):
        fields = {"d": encode_envelope(f"id-{n}", b"\xc0", 1), "source_id": "1-1", "reason": "retries_exhausted"}
        await server.xadd(keys.dlq, fields)
    moved = await asyncio.gather(ours.replay_dlq(200), theirs.replay_dlq(200), ours.replay_dlq(200))
    ids = [decode_job(fields[b"d"]).id for _, fields in await server.xrange(keys.stream)]
    assert sum(moved) == 200
    assert sorted(ids) == sorted(f"id-{n}" for n in range(200))
    assert await server.xlen(keys.dlq) == 0
