"""Commands that abort jobs: those that wait are deleted, those in flight are marked for their workers in `Q:aborts`.

A mark is of an entry, not of a job's id: an id may come again, and its next job is not meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from chasqui_engine._redis.client.link import Argument, Link
from chasqui_engine._redis.commands import headers, scripts
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.keys import QueueKeys

MARK_TTL_MS = 24 * 3600 * 1000
"""How long a worker that takes the job over finds the mark."""
_LEFT_TTL_MS = 60_000
"""How long a mark outlives its entry, so that everybody who waits sees that the job was not aborted."""
FAILURE_TTL_S = 3600
_TAKE = scripts.load("aborts/take", on_full_server="stream")
_TAKE_DELAYED = scripts.load("aborts/take_delayed", on_full_server="zset")
_PAGE = 500


class Taken(IntEnum):
    """What became of a job on the stream that is to be aborted."""

    REMOVED = 1
    MARKED = -1
    GONE = 0
    """Its entry is gone, and a mark with it: the job was aborted, if it had been marked."""
    LEFT = -2
    """Its entry is gone, and its mark is there: it ended in another way, or moved on."""


class Doomed(NamedTuple):
    """A job that is to be aborted."""

    job_id: str
    name: str
    attempt: int
    """Runs made so far."""
    failure: bytes
    """The failure record for waiters."""


async def take(link: Link, keys: QueueKeys, group: str, entry_id: str, job: Doomed, *, events_max: int) -> Taken:
    """Deletes a waiting job, or marks one in flight; called again, says what became of it."""
    used = [keys.stream, keys.events, keys.aborts, keys.taken(job.job_id), keys.failure(job.job_id)]
    args: list[Argument] = [group, events_max, FAILURE_TTL_S, MARK_TTL_MS, _LEFT_TTL_MS]
    args += (entry_id, job.job_id, job.name, job.attempt, job.failure)
    # Not resent: it would report what it had deleted as gone.
    taken = Taken(await link.run(_TAKE, used, args, resend=False))
    if taken is Taken.REMOVED:
        await headers.forget_removed(link, keys, [job.job_id])
    return taken


async def take_delayed(link: Link, keys: QueueKeys, member: bytes, job: Doomed, *, events_max: int) -> bool:
    """Deletes a delayed job; True if it was still delayed."""
    job_id = job.job_id
    used = [keys.delayed, keys.events, keys.taken(job_id), keys.failure(job_id), keys.delayed_index(job_id)]
    args: list[Argument] = [events_max, FAILURE_TTL_S, member, job_id, job.name, job.attempt, job.failure]
    taken = bool(await link.run(_TAKE_DELAYED, used, args, resend=False))
    if taken:
        await headers.forget_removed(link, keys, [job_id])
        await priorities.forget_removed(link, keys, [job_id])
    return taken


async def find_marked(link: Link, keys: QueueKeys, entry_ids: Sequence[bytes]) -> list[bytes]:
    """The entries among these that are marked."""
    found: list[bytes] = []
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        scores = await link.call("ZMSCORE", keys.aborts, *page)
        found += [entry_id for entry_id, score in zip(page, scores, strict=True) if score is not None]
    return found
