"""The workers of a queue: what the group knows of them, and what they say of themselves."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import stats, workers
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stats import ConsumerStats
from chasqui_engine._redis.commands.workers import Registered

SILENT_MS = 60_000
"""A live worker that says nothing of itself reads, or sends a heartbeat, far more often than this, unless its
`block_ms` or `claim_min_idle_ms` is as long."""
DEAD_AFTER_MS = 35_000
"""One that does beats every ten seconds."""
_MOST_TEXT = 300
_MOST_NAMES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerInfo:
    """A worker of a group. What it says of itself is None, or empty, where it says nothing: ChasquiMQ's do not."""

    name: str
    active: int
    """Jobs in flight: those that run, and those it has buffered."""
    idle_ms: int
    """Since it was last seen."""
    alive: bool | None = None
    """Whether it beats; None where it says nothing of itself."""
    running: int | None = None
    """Jobs whose handlers run, as of its last beat."""
    buffered: int | None = None
    """Jobs that it has taken and not begun, as of its last beat."""
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    """Of Chasqui."""
    concurrency: int | None = None
    """Jobs that it may run at once."""
    max_attempts: int | None = None
    """Runs that it gives a job in all, unless the job says otherwise."""
    queues: tuple[str, ...] = ()
    """Those that its process reads."""
    handlers: tuple[str, ...] = ()
    """The job names it has handlers for, or the name of its one function."""
    started_ms: int | None = None
    """When it started, by its own clock."""

    def is_there(self, *, paused: bool) -> bool:
        """Whether it seems to live. Workers of a paused queue do not read, so they are taken for alive unseen."""
        return self.alive if self.alive is not None else self.idle_ms <= SILENT_MS or (paused and not self.active)

    @property
    def runs(self) -> int:
        """Jobs whose handlers run, as far as is known: all in flight of one that does not say."""
        if self.alive is None:
            return self.active
        return min(self.running or 0, self.active) if self.alive else 0


async def list_workers(link: Link, keys: QueueKeys, group: str) -> list[ConsumerInfo] | None:
    """The workers of a group, and those that died within the last hour; None if nothing ever read the queue."""
    consumers, registered = await asyncio.gather(stats.list_consumers(link, keys, group), workers.read(link, keys))
    said = {one.name: (one, facts) for one in registered if (facts := _facts(one)).get("group") == group}
    if consumers is None and not said:
        return None
    known = {one.name: one for one in consumers or ()}
    return [_worker(name, known.get(name), *said.get(name, (None, {}))) for name in sorted({*known, *said})]


def _facts(one: Registered) -> dict[str, Any]:
    try:
        facts = json.loads(one.facts)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _worker(
    name: str, seen: ConsumerStats | None, registered: Registered | None, facts: dict[str, Any]
) -> ConsumerInfo:
    active = 0 if seen is None else seen.pending
    if registered is None:
        return ConsumerInfo(name=name, active=active, idle_ms=0 if seen is None else seen.idle_ms)
    return ConsumerInfo(
        name=name,
        active=active,
        idle_ms=registered.idle_ms,
        alive=registered.idle_ms <= DEAD_AFTER_MS,
        running=_number(facts.get("running")),
        buffered=_number(facts.get("buffered")),
        host=_text(facts.get("host")),
        pid=_number(facts.get("pid")),
        version=_text(facts.get("version")),
        concurrency=_number(facts.get("concurrency")),
        max_attempts=_number(facts.get("max_attempts")),
        queues=_texts(facts.get("queues")),
        handlers=_texts(facts.get("handlers")),
        started_ms=_number(facts.get("started_ms")),
    )


# Other programs may have written anything there.
def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def _text(value: Any) -> str | None:
    return value[:_MOST_TEXT] if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    found = value[:_MOST_NAMES] if isinstance(value, list) else []
    return tuple(one[:_MOST_TEXT] for one in found if isinstance(one, str))
