"""Commands on the headers of jobs, where they are kept beside the entry: under `Q:meta:<job>`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import decode_id

HEADERS_TTL_S = 24 * 3600
"""How long headers are kept after their job was due: until a worker has it, also one that does not pass them on."""
_FORGET = scripts.load("headers/forget")
_PAGE = 500


async def add_missing(link: Link, keys: QueueKeys, deliveries: Iterable[Delivery]) -> None:
    """Adds their kept headers to deliveries whose entries have none."""
    without = [(one, decode_id(one.envelope)) for one in deliveries if one.envelope and not one.headers]
    for start in range(0, len(without), _PAGE):
        page = without[start : start + _PAGE]
        found = await link.call("MGET", *(keys.headers(job_id or "") for _, job_id in page))
        for (delivery, _), headers in zip(page, found, strict=True):
            delivery.headers = headers or b""


async def forget(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, bytes]]) -> None:
    """Deletes the kept headers of (job id, headers), unless the id has others by now."""
    await link.run(_FORGET, [keys.headers(job_id) for job_id, _ in jobs], [headers for _, headers in jobs])


async def forget_removed(link: Link, keys: QueueKeys, job_ids: Sequence[str | bytes]) -> None:
    """Deletes the kept headers of jobs that were removed, if the queue has any."""
    if not job_ids or not await link.call("EXISTS", keys.uses):
        return
    prefix = keys.headers("").encode()
    names = [prefix + (job_id.encode() if isinstance(job_id, str) else job_id) for job_id in job_ids]
    for start in range(0, len(names), _PAGE):
        await link.call("DEL", *names[start : start + _PAGE])
