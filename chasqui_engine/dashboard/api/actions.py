"""The API's actions: POST only, with the right to change, from the dashboard's own page, and in the audit log."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from chasqui_engine.dashboard import audit
from chasqui_engine.dashboard.api.body import read_body
from chasqui_engine.dashboard.api.dead_letter_query import check_ids, find, read_by_ids, read_selected
from chasqui_engine.dashboard.api.payload_input import MOST_BODY_BYTES, parse_payload
from chasqui_engine.dashboard.api.responses import answer
from chasqui_engine.dashboard.dependencies import DashboardDep, Editor, QueueRef

router = APIRouter(prefix="/api")


class Edited(BaseModel):
    """A dead letter, and its payload as it shall be."""

    model_config = ConfigDict(extra="forbid")

    id: str
    payload: str
    """JSON."""


@router.post("/queue/pause")
async def pause(dashboard: DashboardDep, user: Editor, ref: QueueRef) -> Response:
    """Stops workers from taking jobs."""
    with audit.record(user, "pause", ref.connection, ref.queue) as entry:
        async with dashboard.producer(ref) as producer:
            entry["changed"] = await producer.pause()
    dashboard.refresh(ref)
    return answer({"paused": True, "changed": entry["changed"]})


@router.post("/queue/resume")
async def resume(dashboard: DashboardDep, user: Editor, ref: QueueRef) -> Response:
    """Ends a pause."""
    with audit.record(user, "resume", ref.connection, ref.queue) as entry:
        async with dashboard.producer(ref) as producer:
            entry["changed"] = await producer.resume()
    dashboard.refresh(ref)
    return answer({"paused": False, "changed": entry["changed"]})


@router.post("/queue/dead/replay")
async def replay(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Puts dead letters back on the queue. With a filter one part of them; `next` is the cursor of the next part."""
    selected = await read_selected(request)
    with audit.record(user, "replay", ref.connection, ref.queue, **selected.facts) as entry:
        async with dashboard.producer(ref) as producer:
            selected_count, more, entry["count"] = 0, None, 0
            if selected.ids is not None:
                async for part in read_by_ids(producer, selected.ids):
                    selected_count += len(part)
                    entry["count"] += await producer.replay_dead(part)
            else:
                found = await find(producer, selected)
                selected_count, more = len(found.entries), found.next
                entry["count"] = await producer.replay_dead(found.entries)
    dashboard.refresh(ref)
    return answer({"selected": selected_count, "done": entry["count"], "next": more})


@router.post("/queue/dead/delete")
async def delete(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Deletes dead letters for good. With a filter one part of them; `next` is the cursor of the next part."""
    selected = await read_selected(request)
    with audit.record(user, "delete", ref.connection, ref.queue, **selected.facts) as entry:
        async with dashboard.producer(ref) as producer:
            if selected.ids is not None:
                ids, more = selected.ids, None
            else:
                found = await find(producer, selected)
                ids, more = [entry.dlq_id for entry in found.entries], found.next
            entry["count"] = await producer.delete_dead(ids)
    dashboard.refresh(ref)
    return answer({"selected": len(ids), "done": entry["count"], "next": more})


@router.post("/queue/dead/edit")
async def edit(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Puts a dead letter back on the queue with another payload."""
    edited = await read_body(request, Edited, most_bytes=MOST_BODY_BYTES)
    check_ids([edited.id])
    if dashboard.settings.payloads != "show":
        raise HTTPException(403, "Payloads are hidden on this dashboard, so none can be edited.")
    with audit.record(user, "edit and replay", ref.connection, ref.queue, ids=[edited.id]) as entry:
        payload = parse_payload(edited.payload)
        async with dashboard.producer(ref) as producer:
            found = await producer.get_dead([edited.id])
            entry["count"] = sum([await producer.replay_edited(one, payload) for one in found])
    dashboard.refresh(ref)
    return answer({"selected": 1, "done": entry["count"], "next": None})
