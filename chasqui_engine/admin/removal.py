"""Deleting jobs: one, the waiting ones, those of an age, or a whole queue. Running jobs are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal, get_args

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import dead_letters, delayed, headers, locks, stream
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.removal import jobs as removal
from chasqui_engine._redis.commands.removal.jobs import DelayedMember, WaitingEntry
from chasqui_engine.admin.job_lookup import SEARCHED, delayed_job
from chasqui_engine.codec.envelope import decode_id
from chasqui_engine.values.errors import ConfigError, QueueBusyError
from chasqui_engine.values.job import JobId

CleanState = Literal["completed", "failed", "delayed", "waiting", "active"]
"""The states that `clean` accepts; `active` is there for compatibility, and cleans nothing."""


async def remove(link: Link, keys: QueueKeys, group: str, job_id: JobId, *, events_max: int) -> dict[str, bool]:
    """Deletes a job wherever it is, unless it is running; returns where it was."""
    # In the order in which jobs move, so that a job that moves in the meantime is found.
    was_delayed = (await delayed.cancel(link, keys, [job_id]))[0]
    on_stream = await _remove_from_stream(link, keys, group, job_id, events_max)
    report = {"delayed": was_delayed, "stream": on_stream > 0, "dlq": False, "result": False, "active": on_stream < 0}
    if not report["active"]:
        report["dlq"] = await _remove_dead_letters_of(link, keys, job_id)
        report["result"] = await removal.remove_outcome(link, keys, job_id)
    return report


async def _remove_from_stream(link: Link, keys: QueueKeys, group: str, job_id: JobId, events_max: int) -> int:
    """1 if it was deleted, 0 if it is missing, `GIVEN_OUT` if it is in flight."""
    wanted, after = job_id.encode(), b""
    while page := await removal.list_waiting(link, keys, group, after=after, until="+", count=removal.PAGE):
        after = page[-1].entry_id
        for entry in page:
            if entry.job_id == wanted:
                return (await removal.remove_waiting(link, keys, group, [entry], events_max=events_max))[0]
    # Jobs in flight are at the head.
    found = await stream.find_entry(link, keys.stream, job_id, at_most=SEARCHED)
    return 0 if found is None else removal.GIVEN_OUT


async def _remove_dead_letters_of(link: Link, keys: QueueKeys, job_id: JobId) -> bool:
    removed = False
    while (entry := await stream.find_entry(link, keys.dlq, job_id, newest_first=True)) is not None:
        removed |= any(await removal.remove_dead(link, keys, [(entry.entry_id, job_id)]))
    return removed


async def remove_entries(link: Link, keys: QueueKeys, group: str, entry_ids: Sequence[str], *, events_max: int) -> int:
    """Deletes these entries of the stream unless they are in flight; returns how many."""
    removed = 0
    for start in range(0, len(entry_ids), removal.PAGE):
        found = await stream.get_entries(link, keys.stream, entry_ids[start : start + removal.PAGE])
        waiting = [_read_waiting(entry) for entry in found if entry is not None]
        answers = await removal.remove_waiting(link, keys, group, waiting, events_max=events_max) if waiting else []
        removed += answers.count(1)
    return removed


def _read_waiting(entry: stream.Entry) -> WaitingEntry:
    job_id = decode_id(entry.fields.get(b"d", b"")) or ""
    return WaitingEntry(entry.entry_id.encode(), job_id.encode(errors="replace"), entry.fields.get(b"n", b""))


async def drain(link: Link, keys: QueueKeys, group: str, *, events_max: int, with_delayed: bool) -> int:
    """Deletes all waiting jobs and delayed ones; returns how many. Jobs added in the meantime stay."""
    removed = 0
    # Delayed first: due jobs become waiting ones.
    if with_delayed:
        removed = len([job_id async for job_id in _remove_delayed(link, keys, events_max=events_max)])
    else:
        removed = await _remove_staged(link, keys)
    until = await removal.last_entry_id(link, keys)
    async for _ in _remove_waiting(link, keys, group, until=until, events_max=events_max):
        removed += 1
    return removed


async def _remove_staged(link: Link, keys: QueueKeys) -> int:
    removed, rank = 0, None
    while page := await priorities.list_staged(link, keys, after=rank, start=0, count=removal.PAGE):
        rank = page[-1][2]
        job_ids = [job_id.decode(errors="replace") for job_id, _, _ in page]
        cancelled = await priorities.cancel(link, keys, job_ids)
        await headers.forget_removed(link, keys, list(cancelled))
        removed += len(cancelled)
    return removed


async def clean(
    link: Link, keys: QueueKeys, group: str, *, grace_ms: int, limit: int, state: CleanState, events_max: int
) -> list[JobId]:
    """Deletes up to `limit` jobs of a state that are older than `grace_ms`; returns their ids."""
    if state not in get_args(CleanState):
        raise ConfigError(f"state must be one of {', '.join(get_args(CleanState))}, got {state!r}")
    until_ms = await locks.server_now_ms(link) - grace_ms
    if state == "active" or not limit or until_ms < 0:
        return []
    if state == "completed":
        found = _remove_results(link, keys, limit)
    elif state == "failed":
        found = _remove_dead(link, keys, until=str(until_ms), limit=limit)
    elif state == "delayed":
        found = _remove_delayed(link, keys, events_max=events_max, limit=limit, until_ms=until_ms)
    else:
        found = _remove_waiting(link, keys, group, until=str(until_ms), events_max=events_max, limit=limit)
    return [job_id async for job_id in found]


async def obliterate(link: Link, keys: QueueKeys, *, force: bool) -> int:
    """Deletes a whole queue; raises `QueueBusyError` if jobs are running and it is not forced."""
    deleted = await removal.obliterate(link, keys, force=force)
    if deleted < 0:
        raise QueueBusyError(
            f"queue {keys.queue!r} has {-deleted:,} running jobs, and nothing was deleted. Pause it and wait for them, "
            "or pass force=True to delete them as well"
        )
    async for names in removal.scan(link, f"{keys.prefix}:"):
        deleted += await removal.unlink(link, names) if names else 0
    return deleted


async def _remove_waiting(
    link: Link, keys: QueueKeys, group: str, *, until: str, events_max: int, limit: int | None = None
) -> AsyncIterator[JobId]:
    after, left = b"", limit
    while left is None or left > 0:
        page = await removal.list_waiting(
            link, keys, group, after=after, until=until, count=removal.PAGE if left is None else left
        )
        if not page:
            return
        after = page[-1].entry_id
        answers = await removal.remove_waiting(link, keys, group, page, events_max=events_max)
        for entry, answer in zip(page, answers, strict=True):
            if answer == 1:
                yield entry.job_id.decode(errors="replace")
        left = None if left is None else left - answers.count(1)


async def _remove_delayed(
    link: Link, keys: QueueKeys, *, events_max: int, limit: int | None = None, until_ms: int | None = None
) -> AsyncIterator[JobId]:
    # Jobs added in the meantime do not prolong it.
    start, seen, known = 0, 0, await removal.count_delayed(link, keys)
    left = limit
    while seen < known and (left is None or left > 0):
        members = await removal.list_delayed(link, keys, start=start, count=removal.PAGE)
        if not members:
            return
        seen += len(members)
        # Decoding can take long, and would block the event loop meanwhile.
        candidates = members
        if until_ms is not None:  # jobs that wait for their priority's turn are not delayed
            staged = await priorities.are_staged(link, keys, members)
            candidates = [one for one, is_staged in zip(members, staged, strict=True) if not is_staged]
        chosen = (await asyncio.to_thread(_choose, candidates, until_ms))[:left]
        removed = await removal.remove_delayed(link, keys, chosen, events_max=events_max) if chosen else []
        start += len(members) - sum(removed)
        for one, was_there in zip(chosen, removed, strict=True):
            if was_there:
                yield one.job_id
        left = None if left is None else left - sum(removed)


def _choose(members: list[bytes], until_ms: int | None) -> list[DelayedMember]:
    """The jobs created by then, or all."""
    jobs = [(member, delayed_job(member, 0)) for member in members]
    if until_ms is None:
        return [DelayedMember(member, job.id if job else "", job.name if job else "") for member, job in jobs]
    return [DelayedMember(member, job.id, job.name) for member, job in jobs if job and job.created_at_ms <= until_ms]


async def _remove_dead(link: Link, keys: QueueKeys, *, until: str, limit: int) -> AsyncIterator[JobId]:
    after, left = None, limit
    while left > 0:
        page = await dead_letters.list_oldest(link, keys, count=min(left, removal.PAGE), after=after, until=until)
        if not page:
            return
        after = page[-1].dlq_id
        letters = [(letter.dlq_id, decode_id(letter.payload) or "") for letter in page]
        removed = await removal.remove_dead(link, keys, letters)
        for (_, job_id), was_there in zip(letters, removed, strict=True):
            if was_there:
                yield job_id
        left -= sum(removed)


async def _remove_results(link: Link, keys: QueueKeys, limit: int) -> AsyncIterator[JobId]:
    prefix, left = keys.result(""), limit
    async for names in removal.scan(link, prefix):
        # Batched to save round trips; a result that expired in the meantime counts as deleted.
        if chosen := names[:left]:
            await removal.unlink(link, chosen)
        for name in chosen:
            yield name.decode(errors="replace").removeprefix(prefix)
        left -= len(chosen)
        if left <= 0:
            return
