"""What handlers logged of a job."""

from __future__ import annotations

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import job_logs
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.job import JobId

_MOST_LINES = 10_000
"""Lines read at once: our logs have a thousand, but other programs may have written any number."""


async def read_lines(
    link: Link, keys: QueueKeys, job_id: JobId, *, start: int, end: int, asc: bool
) -> tuple[list[str], int]:
    """The lines from `start` to `end`, both included, and how many there are."""
    count = min(end + 1, _MOST_LINES) if min(start, end) >= 0 else _MOST_LINES
    lines, length = await job_logs.read(link, keys, job_id, newest_first=not asc, count=max(1, count))
    return lines[start : None if end == -1 else end + 1], length
