"""Delayed jobs: listing and rescheduling them. The promoter moves those that are due."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import delayed, locks
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin.job_lookup import SEARCHED, delayed_job
from chasqui_engine.values.config import ProducerConfig
from chasqui_engine.values.job import Job, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedJob:
    """A delayed job."""

    run_at_ms: int
    job: Job | None
    """None when it cannot be read."""


async def list_next(
    link: Link, keys: QueueKeys, *, start: int, limit: int, payload_chars: int | None
) -> list[DelayedJob]:
    """Delayed jobs, the next to run first."""
    listed = await delayed.list_delayed(link, keys, start=start, count=limit) if limit else []
    staged = await priorities.are_staged(link, keys, [member for member, _ in listed])
    found = [one for one, is_staged in zip(listed, staged, strict=True) if not is_staged]
    # Decoding can take long, and would block the event loop meanwhile.
    return await asyncio.to_thread(
        lambda: [DelayedJob(run_at_ms=run_at_ms, job=delayed_job(member, payload_chars)) for member, run_at_ms in found]
    )


async def reschedule(link: Link, keys: QueueKeys, config: ProducerConfig, job_id: JobId, run_at_ms: int) -> bool:
    """Moves a delayed job to another time; True if it was still delayed."""
    found = await delayed.find_delayed(link, keys, job_id, at_most=SEARCHED)
    return found is not None and await _move(link, keys, config, job_id, found[0], run_at_ms)


async def run_now(link: Link, keys: QueueKeys, config: ProducerConfig, job_id: JobId) -> bool:
    """Moves a delayed job to the stream; True if it was still delayed."""
    found = await delayed.find_delayed(link, keys, job_id, at_most=SEARCHED)
    if found is None:
        return False
    member, _run_at_ms = found
    if not await _move(link, keys, config, job_id, member, await locks.server_now_ms(link)):
        return False
    events_max = config.events_max
    # If a promoter was faster, the job is on the stream already.
    await delayed.promote_one(link, keys, job_id, member, events_max=events_max)
    return True


async def _move(
    link: Link, keys: QueueKeys, config: ProducerConfig, job_id: JobId, member: bytes, run_at_ms: int
) -> bool:
    ttl_s = config.dedup_ttl_secs
    return await delayed.move_delayed(link, keys, job_id, member, run_at_ms, taken_ttl_s=ttl_s)
