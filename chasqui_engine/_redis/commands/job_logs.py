"""Commands on the logs of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine._redis.client.link import Argument, CommandError, Link
from chasqui_engine._redis.client.replies import ReplyError, decode_text
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys

_APPEND = scripts.load("job_logs/append")


async def append(link: Link, keys: QueueKeys, lines: Sequence[tuple[str, str]], *, max_lines: int, ttl_s: int) -> None:
    """Appends (job id, line), in order."""
    logs = {job_id: number for number, job_id in enumerate(dict.fromkeys(job_id for job_id, _ in lines), 1)}
    args: list[Argument] = [max_lines, ttl_s]
    for job_id, line in lines:
        args += (logs[job_id], line)
    # Not resent: lines would be written twice.
    await link.run(_APPEND, [keys.log(job_id) for job_id in logs], args, resend=False)


async def read(link: Link, keys: QueueKeys, job_id: str, *, newest_first: bool, count: int) -> tuple[list[str], int]:
    """Up to `count` lines from either end of a log, and the total number."""
    command = ("XREVRANGE", "+", "-") if newest_first else ("XRANGE", "-", "+")
    log = keys.log(job_id)
    replies = await link.call_many((("XLEN", log), (command[0], log, *command[1:], "COUNT", count)))
    for reply in replies:
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
    length, entries = replies
    fields = [dict(zip(entry[1][::2], entry[1][1::2], strict=True)) for entry in entries]
    return [decode_text(one.get(b"line", b"")) for one in fields], length
