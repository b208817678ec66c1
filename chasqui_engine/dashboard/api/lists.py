"""The API's lists of jobs by state, page by page."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from chasqui_engine import Producer
from chasqui_engine.admin import CompletedJob, DelayedJob, ListedJob
from chasqui_engine.dashboard.api import serializers
from chasqui_engine.dashboard.api.by_name import find_by_name
from chasqui_engine.dashboard.api.dead_letter_query import check_ids
from chasqui_engine.dashboard.api.payload_view import BRIEF_CHARS
from chasqui_engine.dashboard.api.responses import answer, answer_rows
from chasqui_engine.dashboard.dependencies import CursorQuery, DashboardDep, QueueRef, Viewer
from chasqui_engine.dashboard.settings import Payloads

router = APIRouter(prefix="/api/queue")

_MOST_REPEATABLES = 500
_MOST_START = 10**9
_RESULTS_AT_ONCE = 25
_MOST_RESULT_BYTES = 8 * 1024 * 1024

MomentQuery = Annotated[int, Query(ge=0, le=10**14)]
JobNameQuery = Annotated[str, Query(max_length=256)]


@router.get("/waiting")
async def list_waiting(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, after: CursorQuery = None, name: JobNameQuery = ""
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
    return await answer_rows(dashboard.settings.payloads, serializers.serialize_listed, shown, more)


@router.get("/active")
async def list_active(dashboard: DashboardDep, user: Viewer, ref: QueueRef) -> Response:
    """Jobs in flight, the oldest first, and their runs as the events tell."""
    async with dashboard.producer(ref) as producer:
        found = await producer.list_active(
            dashboard.settings.page_size, group=dashboard.settings.group, payload_chars=BRIEF_CHARS
        )
        runs = await producer.find_last_runs([one.job_id for one in found if one.job_id])

    def show(one: ListedJob, payloads: Payloads) -> dict[str, Any]:
        return serializers.serialize_active(one, runs.get(one.job_id or ""), payloads)

    return await answer_rows(dashboard.settings.payloads, show, found, None)


@router.get("/delayed")
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
        again = [one.job.id for one in shown if one.job is not None and one.job.attempt]
        runs = await producer.find_last_runs(again)

    def show(one: DelayedJob, payloads: Payloads) -> dict[str, Any]:
        return serializers.serialize_delayed(one, runs.get(one.job.id) if one.job else None, payloads)

    return await answer_rows(dashboard.settings.payloads, show, shown, more)


@router.get("/completed")
async def list_completed(
    dashboard: DashboardDep,
    user: Viewer,
    ref: QueueRef,
    before: CursorQuery = None,
    name: JobNameQuery = "",
    since_ms: MomentQuery = 0,
    until_ms: MomentQuery | None = None,
) -> Response:
    """Jobs that completed, of one name or all, the newest first, with their results as long as they are kept."""
    check_ids([before] if before else [])
    async with dashboard.producer(ref) as producer:
        found, more = await producer.list_completed(
            dashboard.settings.page_size, before=before, name=name, since_ms=since_ms, until_ms=until_ms
        )
        results = await _read_results(producer, [one.job_id for one in found])

    def show(one: CompletedJob, payloads: Payloads) -> dict[str, Any]:
        return serializers.serialize_completed(one, results.get(one.job_id), payloads)

    return await answer_rows(dashboard.settings.payloads, show, found, more)


async def _read_results(producer: Producer, job_ids: list[str]) -> dict[str, bytes | None]:
    """What is kept of them, a few at a time: the others, after many bytes, are on the pages of their jobs."""
    found: dict[str, bytes | None] = {}
    for start in range(0, len(job_ids), _RESULTS_AT_ONCE):
        some = job_ids[start : start + _RESULTS_AT_ONCE]
        found.update(zip(some, await producer.get_result_bulk(some), strict=True))
        if sum(len(result or b"") for result in found.values()) > _MOST_RESULT_BYTES:
            break
    return found


@router.get("/repeatables")
async def list_repeatables(dashboard: DashboardDep, user: Viewer, ref: QueueRef) -> Response:
    """Repeatable specs, the next to fire first."""
    async with dashboard.producer(ref) as producer:
        found = await producer.list_repeatable(_MOST_REPEATABLES)
    return answer({"rows": [serializers.serialize_repeatable(meta) for meta in found], "next": None})
