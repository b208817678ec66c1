"""`chasqui events`: what happens in a queue."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from chasqui_engine import ConfigError, Producer, QueueEvent, QueueEvents
from chasqui_engine.cli.input.completion import complete_event
from chasqui_engine.cli.input.params import QueueArgument, QueueOption, require_queue
from chasqui_engine.cli.logs import logger_at
from chasqui_engine.cli.output.formatting import brief
from chasqui_engine.cli.output.terminal import say
from chasqui_engine.cli.session import USAGE, Session, command, fail, print_json
from chasqui_engine.events import EVENT_NAMES
from chasqui_engine.values.durations import iso
from chasqui_engine.values.stream_ids import as_number

_PAGE = 500
_ON_A_TERMINAL = 100
"""Events shown on a terminal unless a start or a limit is given: the stream keeps up to a hundred thousand."""


@dataclass(frozen=True, slots=True)
class _Filter:
    events: frozenset[str]
    job_id: str | None
    job_name: str | None

    def takes(self, event: QueueEvent) -> bool:
        """Whether the event matches."""
        return (
            (not self.events or event.name in self.events)
            and (self.job_id is None or event.job_id == self.job_id)
            and (self.job_name is None or event.job_name == self.job_name)
        )


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "events", rich_help_panel="Inspect")(events)


async def events(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show events as they happen, until Ctrl-C.")] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="ID", help="Begin after this event; 0 is before the oldest.")
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            "-e",
            metavar="NAME",
            help="Only these: completed, failed, dlq …",
            autocompletion=complete_event,
        ),
    ] = None,
    job_id: Annotated[str | None, typer.Option("--job-id", metavar="ID", help="Only of this job.")] = None,
    job_name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only of jobs of this name.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Exit after this many.")] = None,
) -> None:
    """Show the events that a queue keeps; with --follow, those to come. A terminal shows the last 100."""
    name = require_queue(queue_argument, queue)
    _check(event or [], start)
    wanted = _Filter(frozenset(event or ()), job_id, job_name)
    if not follow and start is None and limit is None and not session.as_json and sys.stdout.isatty():
        await _show_last(session, name, wanted)
        return
    shown = 0
    source = _follow(session, name, start or "$") if follow else _read_kept(session, name, start or "0")
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
    if start is not None and start != "$":
        try:
            as_number(start)
        except ConfigError:
            fail(f"--from is the id of an event, not {start!r}", "write 1700000000000-0, 0 or $", exit_code=USAGE)


async def _show_last(session: Session, queue: str, wanted: _Filter) -> None:
    found: list[QueueEvent] = []
    async with session.existing(queue) as producer:
        async for one in _read_newest_first(producer):
            if wanted.takes(one):
                found.append(one)
            if len(found) > _ON_A_TERMINAL:
                break
    for one in reversed(found[:_ON_A_TERMINAL]):
        _show(session, one)
    if len(found) > _ON_A_TERMINAL:
        say(f"the last {_ON_A_TERMINAL}; --from 0 shows all that are kept", sys.stderr)


async def _read_newest_first(producer: Producer) -> AsyncIterator[QueueEvent]:
    before: str | None = None
    while page := await producer.newest_events(_PAGE, before=before):
        before = page[-1].entry_id
        for one in page:
            yield one


async def _follow(session: Session, queue: str, start: str) -> AsyncIterator[QueueEvent]:
    # A break of the connection is ridden out without losing an event, and the log says when it begins and ends.
    with logger_at("chasqui.redis", logging.INFO):
        async with QueueEvents(queue, redis_url=session.url, last_event_id=start) as following:
            async for event in following:
                yield event


async def _read_kept(session: Session, queue: str, start: str) -> AsyncIterator[QueueEvent]:
    async with session.existing(queue) as producer:
        newest = await producer.newest_events(1)
        if not newest or start == "$":
            return
        # Events that are emitted meanwhile are not part of the answer: it would never end in a busy queue.
        last, after = as_number(newest[0].entry_id), start
        while page := await producer.page_events(after, _PAGE):
            for one in page:
                if as_number(one.entry_id) > last:
                    return
                yield one
            after = page[-1].entry_id


def _show(session: Session, event: QueueEvent) -> None:
    if session.as_json:
        named = {"event": event.name, "job_id": event.job_id, "job_name": event.job_name, "entry_id": event.entry_id}
        # A field may have any name; it does not replace what identifies the event.
        print_json({**named, **event.fields, **named})
        return
    fields: dict[str, Any] = dict(event.fields)
    emitted_at = fields.pop("ts", None)
    rest = " ".join(f"{brief(key, 80)}={brief(value, 80)}" for key, value in sorted(fields.items()))
    at = iso(emitted_at) if isinstance(emitted_at, int) else "-"
    name = f" name={brief(event.job_name, 80)}" if event.job_name else ""
    what = brief(event.name, 80)
    say(f"{at} {event.entry_id} {what} id={brief(event.job_id or '-', 80)}{name} {rest}".rstrip())
