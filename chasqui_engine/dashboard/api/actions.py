"""The API's changing side: POST only, for who may, from our own page, with a line in the audit log."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from chasqui_engine.dashboard import audit
from chasqui_engine.dashboard.api.dead_letter_query import by_ids, find, read_selected
from chasqui_engine.dashboard.api.responses import answer
from chasqui_engine.dashboard.dependencies import DashboardDep, Editor, QueueRef

router = APIRouter(prefix="/api")


@router.post("/queue/pause")
async def pause(dashboard: DashboardDep, user: Editor, ref: QueueRef) -> Response:
    """Lets workers take no more jobs."""
    with audit.record(user, "pause", ref.connection, ref.queue) as told:
        async with dashboard.producer(ref) as producer:
            told["changed"] = await producer.pause()
    dashboard.changed(ref)
    return answer({"paused": True, "changed": told["changed"]})


@router.post("/queue/resume")
async def resume(dashboard: DashboardDep, user: Editor, ref: QueueRef) -> Response:
    """Lets workers take jobs again."""
    with audit.record(user, "resume", ref.connection, ref.queue) as told:
        async with dashboard.producer(ref) as producer:
            told["changed"] = await producer.resume()
    dashboard.changed(ref)
    return answer({"paused": False, "changed": told["changed"]})


@router.post("/queue/dead/replay")
async def replay(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Puts dead letters back on the queue. Of all that match a filter one part; `next` says where to go on."""
    selected = await read_selected(request)
    with audit.record(user, "replay", ref.connection, ref.queue, **selected.told) as told:
        async with dashboard.producer(ref) as producer:
            selected_count, more, told["count"] = 0, None, 0
            if selected.ids is not None:
                async for part in by_ids(producer, selected.ids):
                    selected_count += len(part)
                    told["count"] += await producer.replay_dead(part)
            else:
                found = await find(producer, selected)
                selected_count, more = len(found.entries), found.next
                told["count"] = await producer.replay_dead(found.entries)
    dashboard.changed(ref)
    return answer({"selected": selected_count, "done": told["count"], "next": more})


@router.post("/queue/dead/delete")
async def delete(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Deletes dead letters for good. Of all that match a filter one part; `next` says where to go on."""
    selected = await read_selected(request)
    with audit.record(user, "delete", ref.connection, ref.queue, **selected.told) as told:
        async with dashboard.producer(ref) as producer:
            if selected.ids is not None:
                ids, more = selected.ids, None
            else:
                found = await find(producer, selected)
                ids, more = [entry.dlq_id for entry in found.entries], found.next
            told["count"] = await producer.delete_dead(ids)
    dashboard.changed(ref)
    return answer({"selected": len(ids), "done": told["count"], "next": more})
