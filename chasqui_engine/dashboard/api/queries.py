"""The API's queries about the user, the queues, one queue and one job."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response

from chasqui_engine import ConfigError, JobState, version
from chasqui_engine.dashboard import csrf
from chasqui_engine.dashboard.api import serializers
from chasqui_engine.dashboard.api.history import PAST_MIN
from chasqui_engine.dashboard.api.payload_view import WHOLE_CHARS
from chasqui_engine.dashboard.api.responses import answer, stream
from chasqui_engine.dashboard.dependencies import (
    DashboardDep,
    JobIdQuery,
    OptionalConnection,
    QueueRef,
    RequiredConnection,
    Viewer,
    VisibleConnections,
)
from chasqui_engine.dashboard.live import pollers
from chasqui_engine.dashboard.live.series import WINDOWS_MIN, Series
from chasqui_engine.runtime.clock import now_ms

router = APIRouter(prefix="/api")

_LOG_LINES = 200

Minutes = Annotated[int, Query()]


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
            "past_min": PAST_MIN,
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


@router.get("/queue/job")
async def read_job(dashboard: DashboardDep, user: Viewer, ref: QueueRef, job_id: JobIdQuery) -> Response:
    """The state of a job, and its events."""
    payloads = dashboard.settings.payloads
    async with dashboard.producer(ref) as producer:
        info = await producer.get_job(job_id, group=dashboard.settings.group, payload_chars=WHOLE_CHARS)
        result = await producer.get_result(job_id) if info.state is JobState.COMPLETED else None
        events = await producer.events_of_job(job_id)
        lines, count = await producer.get_job_logs(job_id, end=_LOG_LINES - 1, asc=False)
    facts = await asyncio.to_thread(
        lambda: {
            "job": serializers.serialize_job(info, result, payloads),
            "events": [serializers.serialize_event(one, payloads) for one in events],
            "log": serializers.serialize_log(lines[::-1], count, payloads),
        }
    )
    return answer({**facts, "now_ms": now_ms()})
