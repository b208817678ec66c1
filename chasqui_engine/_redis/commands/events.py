"""Commands on the events stream: emit, read, search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from chasqui_engine._redis.client.link import LATE_S, Argument, CommandError, Link
from chasqui_engine._redis.client.replies import decode_text, text_fields
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stream import read_entry
from chasqui_engine.values.stream_ids import ms_of

_ACTIVE = scripts.load("events/emit_active", on_full_server="stream")
_PROGRESS = scripts.load("events/emit_progress", on_full_server="stream")


async def emit_active(
    link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, str, int, bytes]], *, events_max: int
) -> None:
    """Emits `active` for (id, name, attempt, entry id)."""
    args: list[Argument] = [events_max]
    for job_id, name, attempt, entry_id in jobs:
        args += (job_id, name, attempt, entry_id.partition(b"-")[0])
    await link.run(_ACTIVE, [keys.events], args, resend=False)


async def emit_progress(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, str, str]], *, events_max: int) -> None:
    """Emits `progress` for (id, name, progress)."""
    args: list[Argument] = [events_max]
    for job in jobs:
        args += job
    await link.run(_PROGRESS, [keys.events], args, resend=False)


async def read_last_id(link: Link, keys: QueueKeys) -> str:
    """The current last id of the events stream."""
    last = await link.call("XREVRANGE", keys.events, "+", "-", "COUNT", 1)
    if last:
        return str(last[0][0].decode())
    try:  # trimmed to nothing, or never written to
        info = await link.call("XINFO", "STREAM", keys.events)
    except CommandError:
        return "0-0"
    facts = dict(zip(info[::2], info[1::2], strict=True))
    return str(facts[b"last-generated-id"].decode())


async def read_events(
    link: Link, keys: QueueKeys, after: str, *, count: int, block_ms: int
) -> list[tuple[str, dict[str, str]]]:
    """Events after an id, waiting up to `block_ms` for the first."""
    timeout_s = block_ms / 1000 + LATE_S
    reply = await link.call(
        "XREAD", "COUNT", count, "BLOCK", block_ms, "STREAMS", keys.events, after, timeout_s=timeout_s
    )
    return [(decode_text(entry[0]), text_fields(entry[1])) for entry in reply[0][1]] if reply else []


async def list_newest(
    link: Link, keys: QueueKeys, *, after: str, before: str | None = None, count: int
) -> list[tuple[str, dict[str, str]]]:
    """Events after one id, and before another if it is given; the newest first."""
    end = "+" if before is None else f"({before}"
    reply = await link.call("XREVRANGE", keys.events, end, f"({after}", "COUNT", count)
    return [
        (entry.entry_id, {decode_text(key): decode_text(value) for key, value in entry.fields.items()})
        for entry in map(read_entry, reply)
    ]


_FIND_EVENTS = scripts.load("events/find")
_PAGE = 1000


async def find_events_of(link: Link, keys: QueueKeys, job_id: str, *, at_most: int) -> AsyncIterator[dict[str, str]]:
    """The events of a job, the newest first, among the last `at_most` of the queue."""
    start = "+"
    for _ in range(-(-at_most // _PAGE)):
        last, *found = await link.run(_FIND_EVENTS, [keys.events], [start, _PAGE, job_id])
        for fields in found:
            yield text_fields(fields)
        if not last:
            return
        start = f"({decode_text(last)}"


_FIND_OF_MANY = scripts.load("events/find_of_many")


async def find_of_many(
    link: Link, keys: QueueKeys, job_ids: Iterable[str], *, start: str
) -> tuple[str, list[dict[str, str]]]:
    """The events of these jobs in one page, the newest first, with the id of the last event searched.

    That id is empty at the end.
    """
    last, *found = await link.run(_FIND_OF_MANY, [keys.events], [start, _PAGE, *job_ids])
    return decode_text(last), [text_fields(fields) for fields in found]


_FIND_COMPLETED = scripts.load("events/find_completed")


async def find_completed(
    link: Link, keys: QueueKeys, *, start: str, end: str, name: str, most: int
) -> tuple[str, list[tuple[str, dict[str, str]]]]:
    """`completed` events of one page between two ids, the newest first, with the id of the last event searched.

    That id is empty at the end.
    """
    last, *found = await link.run(_FIND_COMPLETED, [keys.events], [start, end, _PAGE, name, most])
    return decode_text(last), [(decode_text(entry[0]), text_fields(entry[1])) for entry in found]


async def list_recent(link: Link, keys: QueueKeys, since_ms: int, *, at_most: int) -> list[tuple[int, str]]:
    """(time, kind) of the newest events since a time, the newest first."""
    reply = await link.call("XREVRANGE", keys.events, "+", since_ms, "COUNT", at_most)
    return [
        (
            ms_of(decode_text(entry[0])),
            decode_text(dict(zip(entry[1][::2], entry[1][1::2], strict=True)).get(b"e", b"")),
        )
        for entry in reply
    ]
