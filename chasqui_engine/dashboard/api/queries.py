"""The API's reading side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response, StreamingResponse

from chasqui_engine import version
from chasqui_engine.clock import now_ms
from chasqui_engine.dashboard import audit, csrf
from chasqui_engine.dashboard.api import serializers
from chasqui_engine.dashboard.api.dead_letter_query import (
    MOST_IDS,
    Selected,
    WantedQuery,
    check_ids,
    each,
    newest_page,
    select_ids,
)
from chasqui_engine.dashboard.api.payload_view import BRIEF_CHARS, WHOLE_CHARS
from chasqui_engine.dashboard.api.responses import answer, stream
from chasqui_engine.dashboard.dependencies import (
    Dashboard,
    DashboardDep,
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
from chasqui_engine.errors import ConfigError
from chasqui_engine.job import DlqEntry

router = APIRouter(prefix="/api")

_MOST_REPEATABLES = 500
_MOST_START = 10**9
_EXPORT_CHARS = 256 * 1024

Minutes = Annotated[int, Query()]
Cursor = Annotated[str | None, Query(max_length=50)]
JobIdQuery = Annotated[str, Query(alias="id", max_length=1024)]


@router.get("/me")
async def me(request: Request, dashboard: DashboardDep, user: Viewer, connection: OptionalConnection) -> Response:
    """Who asks, what they may do (with a connection: there), and what the page needs to know."""
    try:
        await dashboard.guard.user(request, change=True, connection=connection)
        allowed = True
    except HTTPException:
        allowed = False
    token = csrf.token_of(request)
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
async def queues(dashboard: DashboardDep, user: Viewer, visible: VisibleConnections) -> Response:
    """How all queues stand, of all connections that the user may look at."""
    return answer(_queues(await dashboard.watch_all().now(), visible))


@router.get("/queues/live")
async def queues_live(dashboard: DashboardDep, user: Viewer, visible: VisibleConnections) -> Response:
    """The same again and again."""
    dashboard.watches.check_room()
    return stream(dashboard.watch_all(), lambda seen: _queues(seen, visible))


def _queues(seen: Any, visible: frozenset[str]) -> dict[str, Any]:
    return {"connections": _told_apart([one for one in seen if one["name"] in visible]), "now_ms": now_ms()}


def _told_apart(connections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Connections with the first one that leads to the same server as `same_as`: a server's jobs are counted once."""
    first: dict[str, str] = {}
    told = []
    for one in connections:
        server = one.get("server")
        known = server and first.setdefault(server, one["name"])
        shown = {name: value for name, value in one.items() if name != "server"}
        told.append({**shown, "same_as": known if known and known != one["name"] else None})
    return told


@router.get("/queues/search")
async def queues_search(
    dashboard: DashboardDep,
    user: Viewer,
    connection: RequiredConnection,
    text: Annotated[str, Query(min_length=1, max_length=200)],
) -> Response:
    """Queues of a connection by a part of their name."""
    found = await pollers.search(dashboard.pool, connection, text, dashboard.settings.page_size)
    return answer({"queues": found, "now_ms": now_ms()})


@router.get("/queue")
async def queue(dashboard: DashboardDep, user: Viewer, ref: QueueRef, minutes: Minutes = 15) -> Response:
    """How one queue stands, and what happened in it over the last minutes."""
    return answer(_queue(await dashboard.watch_queue(ref, user).now(), _checked(minutes)))


@router.get("/queue/live")
async def queue_live(dashboard: DashboardDep, user: Viewer, ref: QueueRef, minutes: Minutes = 15) -> Response:
    """The same again and again."""
    _checked(minutes)
    dashboard.watches.check_room()
    return stream(dashboard.watch_queue(ref, user), lambda seen: _queue(seen, minutes))


def _queue(seen: tuple[dict[str, Any], Series], minutes: int) -> dict[str, Any]:
    view, series = seen
    # Up to the moment of the look: what was told since then is not counted yet.
    return {**view, "series": series.points(view["now_ms"], minutes)}


def _checked(minutes: int) -> int:
    if minutes not in WINDOWS_MIN:
        raise ConfigError(f"minutes must be one of {', '.join(map(str, WINDOWS_MIN))}, got {minutes}")
    return minutes


@router.get("/queue/waiting")
async def waiting(dashboard: DashboardDep, user: Viewer, ref: QueueRef, after: Cursor = None) -> Response:
    """Jobs that wait, the next to run first."""
    count = dashboard.settings.page_size
    check_ids([after] if after else [])
    async with dashboard.producer(ref) as producer:
        found = await producer.list_waiting(
            count + 1, after=after, group=dashboard.settings.group, payload_chars=BRIEF_CHARS
        )
    shown = found[:count]
    more = shown[-1].entry_id if len(found) > count else None
    return await _rows(dashboard, serializers.listed, shown, more)


@router.get("/queue/active")
async def active(dashboard: DashboardDep, user: Viewer, ref: QueueRef) -> Response:
    """Jobs in the hands of workers, the oldest first."""
    async with dashboard.producer(ref) as producer:
        found = await producer.list_active(
            dashboard.settings.page_size, group=dashboard.settings.group, payload_chars=BRIEF_CHARS
        )
    return await _rows(dashboard, serializers.listed, found, None)


@router.get("/queue/delayed")
async def delayed(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, start: Annotated[int, Query(ge=0, le=_MOST_START)] = 0
) -> Response:
    """Delayed jobs, the next to run first."""
    count = dashboard.settings.page_size
    async with dashboard.producer(ref) as producer:
        found = await producer.list_delayed(count + 1, start=start, payload_chars=BRIEF_CHARS)
    more = start + count if len(found) > count else None
    return await _rows(dashboard, serializers.delayed, found[:count], more)


async def _rows(
    dashboard: Dashboard, show: Callable[[Any, Payloads], Any], found: Sequence[Any], more: Any, **facts: Any
) -> Response:
    """A page of rows, made beside the loop: others, and all of Airflow, run on it."""
    shown = await asyncio.to_thread(lambda: [show(one, dashboard.settings.payloads) for one in found])
    return answer({"rows": shown, "next": more, **facts})


@router.get("/queue/repeatables")
async def repeatables(dashboard: DashboardDep, user: Viewer, ref: QueueRef) -> Response:
    """Repeatable specs, the next to fire first."""
    async with dashboard.producer(ref) as producer:
        found = await producer.list_repeatable(_MOST_REPEATABLES)
    return answer({"rows": [serializers.repeatable(meta) for meta in found], "next": None})


@router.get("/queue/dead")
async def dead(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, wanted: WantedQuery, before: Cursor = None
) -> Response:
    """A page of dead letters that match, the newest first."""
    check_ids([before] if before else [])
    async with dashboard.producer(ref) as producer:
        found = await newest_page(producer, wanted, before, dashboard.settings.page_size)
        total = (await producer.counts(group=dashboard.settings.group)).dead
    return await _rows(dashboard, serializers.dead, found.entries, found.next, total=total)


@router.get("/queue/dead/one")
async def dead_one(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, dlq_id: Annotated[str, Query(alias="id")]
) -> Response:
    """One dead letter, whole."""
    check_ids([dlq_id])
    async with dashboard.producer(ref) as producer:
        found = await producer.get_dead([dlq_id])
    if not found:
        raise HTTPException(404, "This dead letter is gone: it was replayed or deleted.")
    return answer(await asyncio.to_thread(serializers.dead, found[0], dashboard.settings.payloads, brief=False))


@router.get("/queue/dead/export")
async def dead_export(
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
    with audit.record(user, "export", ref.connection, ref.queue, **selected.told, count=0) as told:
        async with dashboard.producer(ref) as producer:
            batch: list[str] = []
            size = 0
            async for entry in each(producer, selected):
                line = await asyncio.to_thread(_line, entry, dashboard.settings.payloads)
                batch.append(line)
                told["count"], size = told["count"] + 1, size + len(line)
                if size >= _EXPORT_CHARS:
                    yield "".join(batch)
                    batch, size = [], 0
            yield "".join(batch)


def _line(entry: DlqEntry, payloads: Payloads) -> str:
    return json.dumps(serializers.exported(entry, payloads), default=str) + "\n"


@router.get("/queue/job")
async def job(dashboard: DashboardDep, user: Viewer, ref: QueueRef, job_id: JobIdQuery) -> Response:
    """Where a job is, and its life so far."""
    payloads = dashboard.settings.payloads
    async with dashboard.producer(ref) as producer:
        info = await producer.get_job(job_id, group=dashboard.settings.group, payload_chars=WHOLE_CHARS)
        events = await producer.events_of_job(job_id)
    told = await asyncio.to_thread(
        lambda: {"job": serializers.job(info, payloads), "events": [serializers.event(one, payloads) for one in events]}
    )
    return answer({**told, "now_ms": now_ms()})
