"""Commands on the stream of waiting jobs: add, list, find."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import Argument, CommandError, Link
from chasqui_engine._redis.client.replies import ReplyError, decode_text
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.fences import Fence
from chasqui_engine._redis.commands.headers import HEADERS_TTL_S
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import encode_payload
from chasqui_engine.values.errors import QueueFullError

_ADD = scripts.load("stream/add")


class NewJob(NamedTuple):
    """A job that is to be written."""

    job_id: str
    envelope: bytes
    name: str
    own_id: bool
    """Whether the id is the caller's own: then it is added once."""
    headers: bytes


class Added(NamedTuple):
    """The outcome of an add."""

    new: int
    """The number of jobs written, without those whose id was taken."""
    room: int
    """Room left after the add; 0 if the oldest jobs are trimmed instead."""


async def add(
    link: Link,
    keys: QueueKeys,
    jobs: Sequence[NewJob],
    *,
    max_len: int,
    trim: bool,
    taken_ttl_s: int,
    fence: Fence | None = None,
    to_come: int = 0,
) -> Added:
    """Adds jobs, all or none.

    `to_come` more jobs of the same call must fit as well. A fence is for
    what is not trimmed and has a job without an id.
    """
    used = [keys.stream]
    known_as = ("", "") if fence is None else (fence.lane, fence.number)
    with_headers = any(job.headers for job in jobs)
    args: list[Argument] = [max_len if trim else max_len - to_come, int(trim), taken_ttl_s, *known_as]
    args.append(HEADERS_TTL_S if with_headers else "")
    own_ids = 0
    for job_id, envelope, name, own_id, headers in jobs:
        if own_id:
            own_ids += 1
            used.append(keys.taken(job_id))
            args += (name, envelope, len(used))
        else:
            args += (name, envelope, 0)
        if with_headers:
            used.append(keys.headers(job_id))
            args += (headers, len(used))
    if with_headers:
        used.append(keys.uses)
    # Resent without a fence, jobs without an id would be added twice.
    resend = own_ids == len(jobs) if fence is None else fence.holds
    try:
        added = Added(*await link.run(_ADD, used, args, resend=resend))
    except CommandError as err:
        _raise_with_way_out(keys, err)
        raise
    if added.new < 0:
        raise queue_full(keys, len(jobs) + to_come, max_len)
    return added


def queue_full(keys: QueueKeys, jobs: int, max_len: int) -> QueueFullError:
    """The error of an add that finds no room."""
    return QueueFullError(
        f"queue {keys.queue!r} has no room for {jobs} more jobs within max_stream_len={max_len}. "
        "Let workers catch up, raise max_stream_len, or pass when_full='trim' to drop the oldest"
    )


async def add_unasked(link: Link, keys: QueueKeys, name: str, envelope: bytes, fence: Fence | None) -> None:
    """Adds one job without an id of its own to a stream that is known to have room."""
    fields = ("d", envelope, "n", name) if name else ("d", envelope)
    try:
        if fence is None:
            await link.call("XADD", keys.stream, "*", *fields, resend=False)
        else:
            known_as = ("IDMP", fence.lane, fence.number)
            await link.call("XADD", keys.stream, *known_as, "*", *fields, resend=fence.holds)
    except CommandError as err:
        _raise_with_way_out(keys, err)
        raise


def _raise_with_way_out(keys: QueueKeys, err: CommandError) -> None:
    """A clearer error for refusals that the server does not explain."""
    refusal = str(err.args[0])
    if "exhausted the last possible ID" in refusal:
        told = f"queue {keys.queue!r} takes no more jobs: `chasqui doctor` says what to do ({refusal})"
        raise CommandError(told) from err


async def list_waiting(link: Link, keys: QueueKeys, group: str, *, after: str | None, count: int) -> list[Entry]:
    """Entries not yet delivered to the group, the next to run first; after a given one, or all."""
    start = after or await _last_delivered(link, keys, group)
    reply = await link.call("XRANGE", keys.stream, f"({start}" if start else "-", "+", "COUNT", count)
    return [read_entry(found) for found in reply]


async def _last_delivered(link: Link, keys: QueueKeys, group: str) -> str | None:
    try:
        reply = await link.call("XINFO", "GROUPS", keys.stream)
    except CommandError as err:
        if err.args[0].startswith("ERR no such key"):
            return None
        raise
    for found in reply:
        facts = dict(zip(found[::2], found[1::2], strict=True))
        if decode_text(facts[b"name"]) == group:
            return decode_text(facts[b"last-delivered-id"])
    return None


async def get_entries(link: Link, stream: str, entry_ids: Sequence[str]) -> list[Entry | None]:
    """These entries of a stream, None for each missing one."""
    replies = await link.call_many(("XRANGE", stream, entry_id, entry_id) for entry_id in entry_ids)
    return [read_entry(found[0]) if type(found) is not ReplyError and found else None for found in replies]


def read_entry(found: list[Any]) -> Entry:
    # An entry deleted while it is pending has no fields.
    fields = found[1] or []
    return Entry(decode_text(found[0]), dict(zip(fields[::2], fields[1::2], strict=True)))


_FIND_ENTRY = scripts.load("stream/find")
_PAGE = 1000


class Entry(NamedTuple):
    """An entry of a stream."""

    entry_id: str
    fields: dict[bytes, bytes]


async def find_entry(
    link: Link, stream: str, job_id: str, *, newest_first: bool = False, at_most: int | None = None
) -> Entry | None:
    """A job's entry among the first, or the last, `at_most` of a stream, or among all; page by page either way."""
    wanted = encode_payload(job_id)
    command, start, end = ("XREVRANGE", "+", "-") if newest_first else ("XRANGE", "-", "+")
    page = _PAGE if at_most is None else min(_PAGE, at_most)
    for _ in itertools.count() if at_most is None else range(-(-at_most // _PAGE)):
        found = await link.run(_FIND_ENTRY, [stream], [command, start, end, page, wanted])
        if len(found) == 2:
            return Entry(decode_text(found[0]), dict(zip(found[1][::2], found[1][1::2], strict=True)))
        if not found[0]:
            return None
        start = f"({decode_text(found[0])}"
    return None
