"""The API's queries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response, StreamingResponse

from chasqui_engine import ConfigError, DlqEntry, JobState, version
from chasqui_engine.admin import DelayedJob, ListedJob
from chasqui_engine.dashboard import audit, csrf
from chasqui_engine.dashboard.api import serializers
from chasqui_engine.dashboard.api.by_name import find_by_name
from chasqui_engine.dashboard.api.dead_letter_query import (
    MOST_IDS,
    Selected,
    WantedQuery,
    check_ids,
    newest_page,
    read_selected_entries,
    select_ids,
)
from chasqui_engine.dashboard.api.payload_view import BRIEF_CHARS, WHOLE_CHARS
from chasqui_engine.dashboard.api.responses import answer, stream
from chasqui_engine.dashboard.dependencies import (
    Dashboard,
    DashboardDep,
    JobIdQuery,
    OptionalConnection,
    QueueAddress,
    QueueRef,
    RequiredConnection,
    Viewer,
    VisibleConnections,
)
from chasqui_engine.dashboard.live import pollers
from chasqui_engine.dashboard.live.series import WINDOWS_MIN, Series
from chasqui_engine.dashboard.settings import Payloads
from chasqui_engine.runtime.clock import now_ms

router = APIRouter(prefix="/api")

_MOST_REPEATABLES = 500
_MOST_START = 10**9
_EXPORT_CHARS = 256 * 1024

Minutes = Annotated[int, Query()]
JobNameQuery = Annotated[str, Query(max_length=256)]
Cursor = Annotated[str | None, Query(max_length=50)]


@router.get("/me")
async def read_me(request: Request, dashboard: DashboardDep, user: Viewer, connection: OptionalConnection) -> Response:
    """The user, their rights (those for a connection, if one is given), and the page's settings."""
    try:
        await dashboard.guard.user(request, change=True, connection=connection)
        allowed = True
    except HTTPException:
        allowed = False
    token = csrf.read_or_make_token(request)
    response = answer(
        {
            "user": user,
            "may_change": allowed,
            "csrf": token,
            "payloads": dashboard.settings.payloads,
            "page_size": dashboard.settings.page_size,
            "live_interval_s": dashboard.settings.live_interval_s,
            "windows_min": WINDOWS_MIN,
            "version": version(),
        }
    )
    csrf.remember(token, request, response)
    return response


@router.get("/queues")
async def read_queues(dashboard: DashboardDep, user: Viewer, visible: VisibleConnections) -> Response:
    """The state of all queues of all connections that the user may view."""
    return answer(_describe_queues(await dashboard.all_queues_feed().now(), visible))


@router.get("/queues/live")
async def stream_queues(dashboard: DashboardDep, user: Viewer, visible: VisibleConnections) -> Response:
    """The same as a stream."""
    dashboard.feeds.check_room()
    return stream(dashboard.all_queues_feed(), lambda seen: _describe_queues(seen, visible))


def _describe_queues(seen: Any, visible: frozenset[str]) -> dict[str, Any]:
    return {"connections": _mark_same_servers([one for one in seen if one["name"] in visible]), "now_ms": now_ms()}


def _mark_same_servers(connections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Connections, those to the server of an earlier one with its name as `same_as`: jobs are counted once."""
    first: dict[str, str] = {}
    marked = []
    for one in connections:
        server = one.get("server")
        known = server and first.setdefault(server, one["name"])
        shown = {name: value for name, value in one.items() if name != "server"}
        marked.append({**shown, "same_as": known if known and known != one["name"] else None})
    return marked


@router.get("/queues/search")
async def search_queues(
    dashboard: DashboardDep,
    user: Viewer,
    connection: RequiredConnection,
    text: Annotated[str, Query(min_length=1, max_length=200)],
) -> Response:
    """Queues of a connection by a part of their name."""
    found = await pollers.search(dashboard.pool, dashboard.settings, connection, text)
    return answer({"queues": found, "now_ms": now_ms()})


@router.get("/queue")
async def read_queue(dashboard: DashboardDep, user: Viewer, ref: QueueRef, minutes: Minutes = 15) -> Response:
    """The state of one queue, and its history over the last minutes."""
    return answer(_describe_queue(await dashboard.queue_feed(ref, user).now(), _check_minutes(minutes)))


@router.get("/queue/live")
async def stream_queue(dashboard: DashboardDep, user: Viewer, ref: QueueRef, minutes: Minutes = 15) -> Response:
    """The same as a stream."""
    _check_minutes(minutes)
    dashboard.feeds.check_room()
    return stream(dashboard.queue_feed(ref, user), lambda seen: _describe_queue(seen, minutes))


def _describe_queue(seen: tuple[dict[str, Any], Series], minutes: int) -> dict[str, Any]:
    view, series = seen
    # Up to the time of the read: later events are not counted yet.
    return {**view, "series": series.points(view["now_ms"], minutes)}


def _check_minutes(minutes: int) -> int:
    if minutes not in WINDOWS_MIN:
        raise ConfigError(f"minutes must be one of {', '.join(map(str, WINDOWS_MIN))}, got {minutes}")
    return minutes


@router.get("/queue/waiting")
async def list_waiting(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, after: Cursor = None, name: JobNameQuery = ""
) -> Response:
    """Waiting jobs, of one name or all, the next to run first."""
    count, group = dashboard.settings.page_size, dashboard.settings.group
    check_ids([after] if after else [])
    async with dashboard.producer(ref) as producer:

        async def read(at: str | None) -> list[ListedJob]:
            return await producer.list_waiting(count + 1, after=at, group=group, payload_chars=BRIEF_CHARS)

        if name:
            shown, more = await find_by_name(
                read, lambda _, page: page[-1].entry_id, lambda one: one.name == name, after, count
            )
        else:
            found = await read(after)
            shown, more = found[:count], found[count - 1].entry_id if len(found) > count else None
    return await _rows(dashboard, serializers.serialize_listed, shown, more)


@router.get("/queue/active")
async def list_active(dashboard: DashboardDep, user: Viewer, ref: QueueRef) -> Response:
    """Jobs in flight, the oldest first."""
    async with dashboard.producer(ref) as producer:
        found = await producer.list_active(
            dashboard.settings.page_size, group=dashboard.settings.group, payload_chars=BRIEF_CHARS
        )
    return await _rows(dashboard, serializers.serialize_listed, found, None)


@router.get("/queue/delayed")
async def list_delayed(
    dashboard: DashboardDep,
    user: Viewer,
    ref: QueueRef,
    start: Annotated[int, Query(ge=0, le=_MOST_START)] = 0,
    name: JobNameQuery = "",
) -> Response:
    """Delayed jobs, of one name or all, the next to run first."""
    count = dashboard.settings.page_size
    async with dashboard.producer(ref) as producer:

        async def read(at: int) -> list[DelayedJob]:
            return await producer.list_delayed(count + 1, start=at, payload_chars=BRIEF_CHARS)

        def is_wanted(one: DelayedJob) -> bool:
            return one.job is not None and one.job.name == name

        if name:
            # In two steps, because `more` may be None.
            named = await find_by_name(read, lambda at, page: at + len(page), is_wanted, start, count)
            shown, more = named
        else:
            found = await read(start)
            shown, more = found[:count], start + count if len(found) > count else None
    return await _rows(dashboard, serializers.serialize_delayed, shown, more)


async def _rows(
    dashboard: Dashboard, show: Callable[[Any, Payloads], Any], found: Sequence[Any], more: Any, **facts: Any
) -> Response:
    """A page of rows, made in a thread: other requests, and all of Airflow, share the event loop."""
    shown = await asyncio.to_thread(lambda: [show(one, dashboard.settings.payloads) for one in found])
    return answer({"rows": shown, "next": more, **facts})


@router.get("/queue/repeatables")
async def list_repeatables(dashboard: DashboardDep, user: Viewer, ref: QueueRef) -> Response:
    """Repeatable specs, the next to fire first."""
    async with dashboard.producer(ref) as producer:
        found = await producer.list_repeatable(_MOST_REPEATABLES)
    return answer({"rows": [serializers.serialize_repeatable(meta) for meta in found], "next": None})


@router.get("/queue/dead")
async def list_dead(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, wanted: WantedQuery, before: Cursor = None
) -> Response:
    """A page of dead letters that match, the newest first."""
    check_ids([before] if before else [])
    async with dashboard.producer(ref) as producer:
        found = await newest_page(producer, wanted, before, dashboard.settings.page_size)
        total = (await producer.counts(group=dashboard.settings.group)).dead
    return await _rows(dashboard, serializers.serialize_dead, found.entries, found.next, total=total)


@router.get("/queue/dead/one")
async def read_dead(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, dlq_id: Annotated[str, Query(alias="id")]
) -> Response:
    """One dead letter with its whole payload."""
    check_ids([dlq_id])
    async with dashboard.producer(ref) as producer:
        found = await producer.get_dead([dlq_id])
    if not found:
        raise HTTPException(404, "This dead letter no longer exists: it was replayed or deleted.")
    return answer(
        await asyncio.to_thread(serializers.serialize_dead, found[0], dashboard.settings.payloads, brief=False)
    )


@router.get("/queue/dead/export")
async def export_dead(
    dashboard: DashboardDep,
    user: Viewer,
    ref: QueueRef,
    wanted: WantedQuery,
    ids: Annotated[str, Query(max_length=MOST_IDS * 50)] = "",
    until: Cursor = None,
) -> Response:
    """Dead letters as JSON lines: those of these ids (with commas between), or all that match the filter."""
    if ids:
        selected = select_ids(ids.split(","))
    elif until:
        check_ids([until])
        selected = Selected(filter=wanted, until=until)
    else:
        raise ConfigError("pass either ids or until")
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in ref.queue)
    headers = {"content-disposition": f'attachment; filename="dead-letters-{name}.jsonl"'}
    return StreamingResponse(_lines(dashboard, ref, selected, user), headers=headers, media_type="application/x-ndjson")


async def _lines(dashboard: Dashboard, ref: QueueAddress, selected: Selected, user: str) -> AsyncIterator[str]:
    with audit.record(user, "export", ref.connection, ref.queue, **selected.facts, count=0) as entry_facts:
        async with dashboard.producer(ref) as producer:
            batch: list[str] = []
            size = 0
            async for entry in read_selected_entries(producer, selected):
                line = await asyncio.to_thread(_line, entry, dashboard.settings.payloads)
                batch.append(line)
                entry_facts["count"], size = entry_facts["count"] + 1, size + len(line)
                if size >= _EXPORT_CHARS:
                    yield "".join(batch)
                    batch, size = [], 0
            yield "".join(batch)


def _line(entry: DlqEntry, payloads: Payloads) -> str:
    return json.dumps(serializers.serialize_exported(entry, payloads), default=str) + "\n"


@router.get("/queue/job")
async def read_job(dashboard: DashboardDep, user: Viewer, ref: QueueRef, job_id: JobIdQuery) -> Response:
    """The state of a job, and its events."""
    payloads = dashboard.settings.payloads
    async with dashboard.producer(ref) as producer:
        info = await producer.get_job(job_id, group=dashboard.settings.group, payload_chars=WHOLE_CHARS)
        result = await producer.get_result(job_id) if info.state is JobState.COMPLETED else None
        events = await producer.events_of_job(job_id)
    facts = await asyncio.to_thread(
        lambda: {
            "job": serializers.serialize_job(info, result, payloads),
            "events": [serializers.serialize_event(one, payloads) for one in events],
        }
    )
    return answer({**facts, "now_ms": now_ms()})
