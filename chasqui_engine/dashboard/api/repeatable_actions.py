"""The API's actions on repeatables."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from chasqui_engine import Producer
from chasqui_engine.dashboard import audit
from chasqui_engine.dashboard.api.body import read_body
from chasqui_engine.dashboard.api.responses import answer
from chasqui_engine.dashboard.dependencies import DashboardDep, Editor, QueueRef

router = APIRouter(prefix="/api/queue/repeatables")

Action = Literal["fire", "pause", "resume", "remove"]


class OneSpec(BaseModel):
    """A spec by its key."""

    model_config = ConfigDict(extra="forbid")

    key: str


@router.post("/{action}")
async def act(dashboard: DashboardDep, user: Editor, ref: QueueRef, action: Action, request: Request) -> Response:
    """Makes one job of a spec now, or pauses, resumes or removes it."""
    key = (await read_body(request, OneSpec)).key
    with audit.record(user, f"{action} repeatable", ref.connection, ref.queue, key=key) as entry:
        async with dashboard.producer(ref) as producer:
            done = await _begin(producer, action, key)
        entry["changed"] = bool(done)
    dashboard.refresh(ref)
    if not done and action in ("fire", "remove"):
        raise HTTPException(404, "This repeatable no longer exists: it was removed, or has ended.")
    return answer({"changed": bool(done), "id": done if isinstance(done, str) else None})


def _begin(producer: Producer, action: Action, key: str) -> Awaitable[bool | str | None]:
    match action:
        case "fire":
            return producer.fire_repeatable(key)
        case "pause":
            return producer.pause_repeatable(key)
        case "resume":
            return producer.resume_repeatable(key)
        case "remove":
            return producer.remove_repeatable(key)
