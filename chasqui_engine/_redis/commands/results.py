"""Commands on stored results and failures."""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import is_drop_record

_KEYS_PER_CALL = 500


async def get_results(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> list[bytes | None]:
    """Stored results, None for each missing one."""
    return await _get_many(link, [keys.result(job_id) for job_id in job_ids])


async def get_failures(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> list[bytes | None]:
    """Failure records, None for each missing one.

    A job that was aborted or expired has given its id back: a record that is left of it is not of the job that has
    taken the id since.
    """
    found = await _get_many(link, [keys.failure(job_id) for job_id in job_ids])
    if dropped := [n for n, record in enumerate(found) if record is not None and is_drop_record(record)]:
        taken = await link.call_many(("EXISTS", keys.taken(job_ids[n])) for n in dropped)
        for n, is_taken in zip(dropped, taken, strict=True):
            # What a user may not look at counts as free.
            found[n] = None if is_taken == 1 else found[n]
    return found


async def get_failures_of(link: Link, keys: QueueKeys, job_ids: Sequence[str | None]) -> list[bytes | None]:
    """The failure records of dead letters; None where the id is unknown, or no record is left."""
    known = [job_id for job_id in job_ids if job_id is not None]
    found = dict(zip(known, await get_failures(link, keys, known), strict=True))
    return [None if job_id is None else found[job_id] for job_id in job_ids]


async def _get_many(link: Link, names: list[str]) -> list[bytes | None]:
    found: list[bytes | None] = []
    for start in range(0, len(names), _KEYS_PER_CALL):
        found += await link.call("MGET", *names[start : start + _KEYS_PER_CALL])
    return found
