"""`chasqui events`: what happens in a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from chasqui_engine._redis.client.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.commands import events as events_commands
from chasqui_engine._redis.commands import stats
from chasqui_engine.cli.formatting import brief
from chasqui_engine.cli.params import QueueArgument, QueueOption, require_queue
from chasqui_engine.cli.session import USAGE, Session, command, fail, no_such_queue, print_json
from chasqui_engine.cli.terminal import say
from chasqui_engine.durations import iso
from chasqui_engine.events import QueueEvent, QueueEvents
from chasqui_engine.events.event import EVENT_NAMES

_PAGE = 500


@dataclass(frozen=True, slots=True)
class _Filter:
    events: frozenset[str]
    job_id: str | None
    job_name: str | None

    def takes(self, event: QueueEvent) -> bool:
        """Whether it is asked for."""
        return (
            (not self.events or event.name in self.events)
            and (self.job_id is None or event.job_id == self.job_id)
            and (self.job_name is None or event.job_name == self.job_name)
        )


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "events", rich_help_panel="Look")(events)


async def events(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens from now on.")] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="ID", help="Begin after this event; 0 is the oldest kept.")
    ] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", "-e", metavar="NAME", help="Only such: completed, failed, dlq …")
    ] = None,
    job_id: Annotated[str | None, typer.Option("--job-id", metavar="ID", help="Only of this job.")] = None,
    job_name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only of jobs of this name.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="End after so many.")] = None,
) -> None:
    """Show the events of a queue: those that are kept, and with --follow those to come."""
    name = require_queue(queue_argument, queue)
    _check(event or [], start)
    wanted = _Filter(frozenset(event or ()), job_id, job_name)
    shown = 0
    source = _to_come(session, name, start or "$") if follow else _kept(session, name, start or "0")
    async for one in source:
        if wanted.takes(one):
            _show(session, one)
            shown += 1
            if shown == limit:
                return


def _check(names: list[str], start: str | None) -> None:
    unknown = [name for name in names if name not in EVENT_NAMES]
    if unknown:
        fail(f"there is no event {unknown[0]!r}", f"choose from {', '.join(EVENT_NAMES)}", exit_code=USAGE)
    if start is not None and start != "$" and not _is_event_id(start):
        fail(f"--from is the id of an event, not {start!r}", "write 1700000000000-0, 0 or $", exit_code=USAGE)


def _is_event_id(text: str) -> bool:
    return all(part.isdecimal() and int(part) < 2**64 for part in text.split("-", 1))


async def _to_come(session: Session, queue: str, start: str) -> AsyncIterator[QueueEvent]:
    async with QueueEvents(queue, redis_url=session.url, last_event_id=start) as following:
        async for event in following:
            yield event


async def _kept(session: Session, queue: str, start: str) -> AsyncIterator[QueueEvent]:
    connector = Connector(session.url, queue, "cli")
    try:
        link = await connector.link(A_MOMENT_S).connect()
        if not await stats.exists(link, connector.keys):
            no_such_queue(queue)
        last = await events_commands.read_last_id(link, connector.keys)
        after = start
        while True:
            # Waits for nothing: where there is nothing more, there is an end.
            page = await events_commands.read_events(link, connector.keys, after, count=_PAGE, block_ms=1)
            for entry_id, fields in page:
                yield QueueEvent.of(entry_id, fields)
                after = entry_id
                if entry_id == last:
                    return
            if not page:
                return
    finally:
        await connector.close()


def _show(session: Session, event: QueueEvent) -> None:
    if session.as_json:
        named = {"event": event.name, "job_id": event.job_id, "job_name": event.job_name, "entry_id": event.entry_id}
        # A field of any name may be there; it does not stand for what an event is.
        print_json({**named, **event.fields, **named})
        return
    fields: dict[str, Any] = dict(event.fields)
    told_at = fields.pop("ts", None)
    rest = " ".join(f"{brief(key, 80)}={brief(value, 80)}" for key, value in sorted(fields.items()))
    at = iso(told_at) if isinstance(told_at, int) else "-"
    name = f" name={brief(event.job_name, 80)}" if event.job_name else ""
    what = brief(event.name, 80)
    say(f"{at} {event.entry_id} {what} id={brief(event.job_id or '-', 80)}{name} {rest}".rstrip())
