"""Jobs by state, page by page, and how many there are: the names that BullMQ and ChasquiMQ have for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal, get_args

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import dead_letters, delayed
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.removal import jobs as removal
from chasqui_engine.admin import lists
from chasqui_engine.admin.job_lookup import delayed_job
from chasqui_engine.admin.snapshot import read_counts
from chasqui_engine.codec.preview import glimpse_job
from chasqui_engine.values.errors import ConfigError, DecodeError
from chasqui_engine.values.job import DlqEntry, Job

PageState = Literal["waiting", "active", "delayed", "prioritized", "failed"]
"""The states whose jobs can be listed; `failed` is the dead letters."""
CountState = Literal["waiting", "active", "delayed", "prioritized", "completed", "failed", "paused"]
"""The states that can be counted; `completed` is the number of kept results."""
_AFTER_ENTRY = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_AFTER_SCORE = re.compile(r"(?P<ms>[0-9]{1,16}):(?P<seen>[0-9]{1,16})")

Page = tuple[list[Job], str | None]
"""Jobs, and the cursor of the next page; None at the end."""


async def read_page(
    link: Link, keys: QueueKeys, group: str, state: str, *, offset: int, limit: int, cursor: str | None
) -> Page:
    """A page of a state's jobs: after the cursor, else after `offset` of them. Unreadable jobs are left out."""
    if state not in get_args(PageState):
        hint = "; of completed jobs only results are kept, see get_job_result" if state == "completed" else ""
        raise ConfigError(f"state must be one of {', '.join(get_args(PageState))}, got {state!r}{hint}")
    if not limit:
        return [], cursor
    if state == "delayed":
        return await _read_delayed(link, keys, offset, limit, cursor)
    if state == "prioritized":
        if cursor is not None and not cursor.isdecimal():
            raise ConfigError(f"cursor must come from a page of prioritized jobs, got {cursor!r}")
        start = offset if cursor is None else 0
        return await _list_prioritized(link, keys, after=cursor, start=start, limit=limit)
    if cursor is not None and not _AFTER_ENTRY.fullmatch(cursor):
        raise ConfigError(f"cursor must come from a page of {state} jobs, got {cursor!r}")
    # A stream has no index by position: skipped entries are read.
    skipped = offset if cursor is None else 0
    if state == "failed":
        return await _read_dead(link, keys, skipped, limit, cursor)
    wanted = skipped + limit
    if state == "active":
        found = await lists.list_active(link, keys, group, after=cursor, limit=wanted, payload_chars=None)
        # Jobs that have ended in the meantime are left out, so a short page is not necessarily the last.
        is_last = not found
    else:
        found = await lists.list_waiting(link, keys, group, after=cursor, limit=wanted, payload_chars=None)
        is_last = len(found) < wanted
    jobs = [one.job for one in found[skipped:] if one.job is not None]
    return jobs, None if is_last else found[-1].entry_id


async def _read_delayed(link: Link, keys: QueueKeys, offset: int, limit: int, cursor: str | None) -> Page:
    # Jobs leave the set at its front: a cursor by position would skip some.
    least_ms, seen = 0, 0
    if cursor is not None:
        found = _AFTER_SCORE.fullmatch(cursor)
        if not found:
            raise ConfigError(f"cursor must come from a page of delayed jobs, got {cursor!r}")
        least_ms, seen = int(found["ms"]), int(found["seen"])
    skipped = offset if cursor is None else seen
    members = await delayed.list_delayed(link, keys, start=skipped, count=limit, least_ms=least_ms if cursor else None)
    staged = await priorities.are_staged(link, keys, [member for member, _ in members])
    chosen = [member for (member, _), is_staged in zip(members, staged, strict=True) if not is_staged]
    jobs = await asyncio.to_thread(lambda: [delayed_job(member) for member in chosen])
    return [job for job in jobs if job is not None], _cursor_after(members, limit, least_ms, seen)


def _cursor_after(members: Sequence[tuple[bytes, int]], limit: int, least_ms: int, seen: int) -> str | None:
    if len(members) < limit:
        return None
    last_ms = members[-1][1]
    as_late = sum(run_at_ms == last_ms for _, run_at_ms in members)
    return f"{last_ms}:{as_late + (seen if last_ms == least_ms else 0)}"


async def _read_dead(link: Link, keys: QueueKeys, skipped: int, limit: int, cursor: str | None) -> Page:
    letters: list[DlqEntry] = []
    after, wanted = cursor, skipped + limit
    while len(letters) < wanted:
        page = await dead_letters.list_oldest(link, keys, count=wanted - len(letters), after=after)
        if not page:
            break
        letters += page
        after = page[-1].dlq_id
    jobs = await asyncio.to_thread(lambda: [_job_of(letter) for letter in letters[skipped:]])
    return [job for job in jobs if job is not None], letters[-1].dlq_id if len(letters) == wanted else None


def _job_of(letter: DlqEntry) -> Job | None:
    try:
        return glimpse_job(letter.payload, letter.name, None)
    except DecodeError:
        return None


async def count_jobs(link: Link, keys: QueueKeys, group: str, states: Sequence[CountState]) -> dict[str, int]:
    """How many jobs are in each of these states, or in each of all; `paused` is 1 or 0."""
    for state in states:
        if state not in get_args(CountState):
            raise ConfigError(f"state must be one of {', '.join(get_args(CountState))}, got {state!r}")
    wanted = states or get_args(CountState)
    found = await read_counts(link, keys, group)
    counts = {
        "waiting": found.waiting,
        "active": found.active,
        "delayed": found.delayed,
        "prioritized": found.prioritized,
        "failed": found.dead,
        "paused": int(found.paused),
    }
    if "completed" in wanted:
        counts["completed"] = sum([len(page) async for page in removal.scan(link, keys.result(""))])
    return {state: counts[state] for state in wanted}


async def _list_prioritized(
    link: Link, keys: QueueKeys, *, after: str | None, start: int, limit: int
) -> tuple[list[Job], str | None]:
    """Jobs that wait for their priority's turn, the first to run first; and the cursor of the next page."""
    found = await priorities.list_staged(link, keys, after=after, start=start, count=limit)
    jobs = await asyncio.to_thread(lambda: [delayed_job(member) for _, member, _ in found])
    for (_, _, rank), job in zip(found, jobs, strict=True):
        if job is not None:
            job.priority = priorities.priority_of(rank)
    return [job for job in jobs if job is not None], found[-1][2] if len(found) == limit else None
