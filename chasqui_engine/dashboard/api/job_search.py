"""Finds a job by its id in all queues, in bounded time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from starlette.responses import Response

from chasqui_engine import ChasquiError, JobInfo, JobState
from chasqui_engine.dashboard.api.responses import answer
from chasqui_engine.dashboard.dependencies import (
    Dashboard,
    DashboardDep,
    JobIdQuery,
    OptionalConnection,
    Viewer,
    VisibleConnections,
)
from chasqui_engine.values.validation import check_job_id

router = APIRouter(prefix="/api")

_MOST_S = 5.0
_MOST_FOUND = 50


@dataclass(slots=True)
class _Search:
    job_id: str
    queue_first: str | None
    found: list[dict[str, Any]] = field(default_factory=list)
    servers: set[str] = field(default_factory=set)
    """Those that are searched: several connections may lead to one."""
    complete: bool = True
    """Whether every queue could be searched in time."""


@router.get("/jobs/find")
async def find_job(
    dashboard: DashboardDep,
    user: Viewer,
    visible: VisibleConnections,
    job_id: JobIdQuery,
    connection: OptionalConnection = None,
    queue: Annotated[str | None, Query()] = None,
) -> Response:
    """The queues that know the job; `queue` of `connection` is searched first."""
    search = _Search(check_job_id(job_id), queue)
    # A search reads much of every queue: one at a time.
    try:
        async with asyncio.timeout(_MOST_S):
            await dashboard.searching.acquire()
    except TimeoutError:
        raise HTTPException(503, "Others are searching: try again in a moment.") from None
    try:
        if connection is not None:
            await _search_server(dashboard, search, connection)
        await asyncio.gather(*(_search_server(dashboard, search, one) for one in visible if one != connection))
    finally:
        dashboard.searching.release()
    return answer({"found": search.found[:_MOST_FOUND], "complete": search.complete})


async def _search_server(dashboard: Dashboard, search: _Search, connection: str) -> None:
    try:
        async with asyncio.timeout(_MOST_S), dashboard.pool.monitor(connection) as monitor:
            server = monitor.server
            if server is not None and server in search.servers:
                return
            search.servers.add(server or connection)
            names = await monitor.names()
            for queue in sorted(names, key=lambda name: name != search.queue_first):
                info = await monitor.find_job(queue, search.job_id)
                if isinstance(info, JobInfo) and info.state is not JobState.UNKNOWN:
                    found = {"connection": connection, "queue": queue, "name": info.name, "state": info.state}
                    search.found.append(found)
    except (ChasquiError, TimeoutError):
        search.complete = False
