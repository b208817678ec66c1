"""Repeatable specs: storing, listing, pausing and removing them. The scheduler fires them."""

from __future__ import annotations

import logging
import math

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import repeatables, stream
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stream import NewJob
from chasqui_engine.codec.repeatable import decode_spec, encode_fire, encode_spec
from chasqui_engine.schedule.plan import upserted_fire_ms
from chasqui_engine.schedule.spec import PAUSED_MS, RepeatableMeta, RepeatableSpec
from chasqui_engine.values.config import ProducerConfig
from chasqui_engine.values.durations import stored_ms
from chasqui_engine.values.errors import DecodeError, EncodeError
from chasqui_engine.values.ids import mint_ids
from chasqui_engine.values.job import JobId
from chasqui_engine.values.validation import MAX_SPEC_BYTES, check_job_name, check_repeat_key

_log = logging.getLogger("chasqui.schedule")

_PAGE = 100
_MOST_UNREADABLE = 1_000
"""At most this many unreadable specs are skipped by a list, so that they do not hide those behind them."""


def encode_checked(spec: RepeatableSpec) -> bytes:
    """Encodes a spec for storage; raises an error if it is invalid."""
    check_job_name(spec.job_name)
    check_repeat_key(spec.resolved_key())
    data = encode_spec(spec)
    if len(data) > MAX_SPEC_BYTES:
        raise EncodeError(
            f"a repeatable takes up to {MAX_SPEC_BYTES} bytes, its payload included, got {len(data)}: "
            "keep what is large elsewhere and let the payload name it"
        )
    return data


async def upsert(link: Link, keys: QueueKeys, spec: RepeatableSpec) -> str:
    """Stores a spec, or replaces the one with the same key; returns the key.

    One with the same pattern keeps its next fire: programs upsert at every start, and a due fire
    is not delayed by that.
    """
    data, key = encode_checked(spec), spec.resolved_key()
    while True:
        before = await repeatables.read_next_fire(link, keys, key)
        next_ms = upserted_fire_ms(spec, before.now_ms, _kept_ms(spec, before))
        if _is_paused(before):
            next_ms = PAUSED_MS
        if await repeatables.upsert(link, keys, key, data, next_ms, before):
            return key


def _kept_ms(spec: RepeatableSpec, before: repeatables.StoredFire) -> int | None:
    """The next fire of the stored spec, if it has the same pattern."""
    if before.data is None or before.score is None or not math.isfinite(float(before.score)):
        return None
    try:
        stored = decode_spec(before.data)
    except DecodeError:
        return None
    same = (stored.pattern, stored.start_after_ms) == (spec.pattern, spec.start_after_ms)
    return int(float(before.score)) if same else None


async def list_all(link: Link, keys: QueueKeys, limit: int) -> list[RepeatableMeta]:
    """Up to `limit` specs in the order in which they fire. One that cannot be read is left out, with a warning."""
    metas: list[RepeatableMeta] = []
    looked_at, more = 0, True
    while more and len(metas) < limit and looked_at - len(metas) < _MOST_UNREADABLE:
        page, more = await repeatables.read_page(link, keys, start=looked_at, count=max(_PAGE, limit - len(metas)))
        looked_at += len(page)
        for stored in page:
            try:
                metas.append(_meta(stored, decode_stored(stored)))
            except DecodeError as err:
                _log.warning("repeatable %.200r of %s cannot be read: %.500s", stored.key, keys.queue, err)
    return metas[:limit]


def decode_stored(stored: repeatables.StoredSpec) -> RepeatableSpec:
    """Decodes the stored spec."""
    if stored.data is None and stored.size is not None:
        raise DecodeError(f"a spec takes up to {MAX_SPEC_BYTES} bytes, this one has {stored.size}")
    return decode_spec(stored.data or b"")


def _meta(stored: repeatables.StoredSpec, spec: RepeatableSpec) -> RepeatableMeta:
    return RepeatableMeta(
        key=stored.key,
        job_name=spec.job_name,
        pattern=spec.pattern,
        next_fire_ms=stored_ms(stored.next_fire_ms),
        limit=spec.limit,
        start_after_ms=spec.start_after_ms,
        end_before_ms=spec.end_before_ms,
        missed_fires=None if spec.missed_fires.kind == "skip" else spec.missed_fires,
        retry=spec.retry,
    )


async def pause(link: Link, keys: QueueKeys, key: str) -> bool:
    """Keeps a spec from firing; True if it was not paused before.

    Its next fire is put off beyond all calendars, so that the schedulers of other engines do not fire it either.
    """
    while True:
        before = await repeatables.read_next_fire(link, keys, key)
        if before.score is None or _is_paused(before):
            return False
        if await repeatables.set_next_fire(link, keys, key, PAUSED_MS, before):
            return True


async def resume(link: Link, keys: QueueKeys, key: str) -> bool:
    """Ends a pause; True if there was one."""
    while True:
        before = await repeatables.read_next_fire(link, keys, key)
        if not _is_paused(before):
            return False
        next_ms = upserted_fire_ms(decode_spec(before.data or b""), before.now_ms, None)
        if await repeatables.set_next_fire(link, keys, key, next_ms, before):
            return True


async def fire_now(link: Link, keys: QueueKeys, config: ProducerConfig, key: str) -> JobId | None:
    """Makes one job of a spec beside its fires; None if there is no such spec."""
    stored = await repeatables.read_next_fire(link, keys, key)
    if stored.data is None:
        return None
    [job_id] = mint_ids(1, stored.now_ms)
    envelope, name = encode_fire(stored.data, job_id, stored.now_ms), decode_spec(stored.data).job_name
    trim, ttl_s = config.when_full == "trim", config.dedup_ttl_secs
    job = NewJob(job_id, envelope, name, own_id=False, headers=b"")
    await stream.add(link, keys, [job], max_len=config.max_stream_len, trim=trim, taken_ttl_s=ttl_s)
    return job_id


def _is_paused(stored: repeatables.StoredFire) -> bool:
    return stored.score is not None and stored_ms(float(stored.score)) >= PAUSED_MS


async def remove(link: Link, keys: QueueKeys, key: str) -> bool:
    """Removes a spec; True if there was one."""
    return await repeatables.remove(link, keys, key)
