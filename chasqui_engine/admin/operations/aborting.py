"""Aborting a job wherever it is, and waiting until the worker that runs it has stopped it."""

from __future__ import annotations

import asyncio
from typing import Literal

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import delayed, stream
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.removal import aborts
from chasqui_engine._redis.commands.removal.aborts import Doomed, Taken
from chasqui_engine.admin.operations.base import Operations
from chasqui_engine.codec.envelope import decode_delayed, decode_job, encode_failure
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.job import JobId
from chasqui_engine.values.packed import Packed
from chasqui_engine.values.validation import check_job_id, check_seconds

AbortState = Literal["removed", "aborted", "requested", "gone"]
"""What `abort` did: `removed` before it ran; `aborted` while it ran; `requested`, and its worker has not confirmed it;
`gone`, because there is no such job, or it has ended."""

DEFAULT_ABORT_S = 5.0
"""How long an abort waits for the worker."""
_POLL_S = 0.05
_ALL = 2**40


class AbortOperations(Operations):
    """The part of `QueueOperations` that concerns aborts."""

    async def abort(self, job_id: JobId, *, timeout: float = DEFAULT_ABORT_S, group: str = "default") -> AbortState:
        """Stops a job wherever it is. It ends as aborted: it is not retried, leaves no dead letter, and frees its id.

        `removed`: it had not begun. `aborted`: it ran, and has stopped: handlers in the event loop are cancelled,
        processes are killed, and handlers in threads look at `Job.aborting`. `requested`: it ran, and was not stopped
        within `timeout` seconds (0 does not wait); it stops as soon as a worker of this engine sees the request.
        `gone`: there is no such job, or it has ended. Those who wait for its result get a `JobAbortedError`.
        """
        if timeout != 0:
            check_seconds(timeout, "timeout")
        link, keys, events_max = await self._open_link(), self._keys, self._config.events_max
        return await abort(link, keys, group, check_job_id(job_id), timeout_s=timeout, events_max=events_max)


async def abort(
    link: Link, keys: QueueKeys, group: str, job_id: JobId, *, timeout_s: float, events_max: int
) -> AbortState:
    """Removes a job that has not begun, or has its worker stop it, and waits for that."""
    deadline = monotonic() + timeout_s
    moved = False
    while True:
        if await _take_delayed(link, keys, job_id, events_max, at_most=0):
            return "removed"
        entry = await stream.find_entry(link, keys.stream, job_id)
        if entry is not None:
            taken = await _stop(link, keys, group, entry, events_max, deadline)
            if taken is not None:
                return taken
            moved = True
            continue
        if await _take_delayed(link, keys, job_id, events_max, at_most=_ALL):
            return "removed"
        # It may have been promoted between the two searches.
        if moved or not await link.call("EXISTS", keys.delayed):
            return "gone"
        moved = True


async def _stop(
    link: Link, keys: QueueKeys, group: str, entry: stream.Entry, events_max: int, deadline: float
) -> AbortState | None:
    """Aborts the job in an entry; None if it moved on, or ended by itself."""
    job = _doom(entry.fields.get(b"n", b"").decode(errors="replace"), entry.fields.get(b"d", b""))
    was_marked = False
    while True:
        taken = await aborts.take(link, keys, group, entry.entry_id, job, events_max=events_max)
        if taken is Taken.REMOVED:
            return "removed"
        if taken is not Taken.MARKED:
            return "aborted" if was_marked and taken is Taken.GONE else None
        was_marked = True
        if monotonic() >= deadline:
            return "requested"
        await asyncio.sleep(min(_POLL_S, max(0.0, deadline - monotonic())))


async def _take_delayed(link: Link, keys: QueueKeys, job_id: JobId, events_max: int, *, at_most: int) -> bool:
    found = (await delayed.search_delayed(link, keys, job_id, at_most=at_most)).found
    if found is None:
        return False
    member = found[0]
    return await aborts.take_delayed(link, keys, member, _doom(*decode_delayed(member)), events_max=events_max)


def _doom(name: str, envelope: bytes) -> Doomed:
    """The job in an envelope that was found by its id."""
    job = decode_job(envelope, name, Packed)
    return Doomed(job.id, name, job.attempt, encode_failure("aborted", None, job.attempt))
