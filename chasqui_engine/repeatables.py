"""Repeatable specs: storing, listing and removing them. The scheduler fires them."""

from __future__ import annotations

import logging

from chasqui_engine._redis import records
from chasqui_engine._redis.connection import Link
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.codec import decode_spec, encode_spec
from chasqui_engine.errors import DecodeError
from chasqui_engine.names import check_job_name, check_repeat_key
from chasqui_engine.repeat import RepeatableMeta, RepeatableSpec, first_fire_ms
from chasqui_engine.times import FURTHEST_MS

_log = logging.getLogger("chasqui")


def encode_checked(spec: RepeatableSpec) -> bytes:
    """A spec as it is stored; raises what is wrong with it."""
    check_job_name(spec.job_name)
    check_repeat_key(spec.resolved_key())
    return encode_spec(spec)


async def upsert(link: Link, keys: QueueKeys, spec: RepeatableSpec) -> str:
    """Stores a spec, or replaces the one with the same key; returns the key."""
    data = encode_checked(spec)
    next_ms = first_fire_ms(spec, await records.server_now_ms(link))
    await records.upsert_spec(link, keys, spec.resolved_key(), data, next_ms)
    return spec.resolved_key()


async def list_all(link: Link, keys: QueueKeys, limit: int) -> list[RepeatableMeta]:
    """Up to `limit` specs in the order in which they fire. One that cannot be read is left out, with a warning."""
    metas = []
    for key, next_fire_ms, data, _fired in await records.list_specs(link, keys, count=limit):
        try:
            spec = decode_spec(data or b"")
        except DecodeError as err:
            _log.warning("repeatable %r of %s cannot be read: %s", key, keys.queue, err)
            continue
        metas.append(
            RepeatableMeta(
                key=key,
                job_name=spec.job_name,
                pattern=spec.pattern,
                next_fire_ms=int(min(max(next_fire_ms, 0), FURTHEST_MS)),
                limit=spec.limit,
                start_after_ms=spec.start_after_ms,
                end_before_ms=spec.end_before_ms,
                missed_fires=None if spec.missed_fires.kind == "skip" else spec.missed_fires,
            )
        )
    return metas


async def remove(link: Link, keys: QueueKeys, key: str) -> bool:
    """Removes a spec; True if there was one."""
    return await records.remove_spec(link, keys, key)
