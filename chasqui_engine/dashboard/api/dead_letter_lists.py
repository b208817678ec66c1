"""The API's queries of dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from starlette.responses import Response, StreamingResponse

from chasqui_engine import ConfigError, DlqEntry
from chasqui_engine.dashboard import audit
from chasqui_engine.dashboard.api import serializers
from chasqui_engine.dashboard.api.dead_letter_query import (
    MOST_IDS,
    Selected,
    WantedQuery,
    check_ids,
    newest_page,
    read_selected_entries,
    select_ids,
)
from chasqui_engine.dashboard.api.payload_input import write_editable
from chasqui_engine.dashboard.api.responses import answer, answer_rows
from chasqui_engine.dashboard.dependencies import (
    CursorQuery,
    Dashboard,
    DashboardDep,
    QueueAddress,
    QueueRef,
    Viewer,
)
from chasqui_engine.dashboard.settings import Payloads

router = APIRouter(prefix="/api/queue/dead")

_EXPORT_CHARS = 256 * 1024


@router.get("")
async def list_dead(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, wanted: WantedQuery, before: CursorQuery = None
) -> Response:
    """A page of dead letters that match, the newest first."""
    check_ids([before] if before else [])
    async with dashboard.producer(ref) as producer:
        found = await newest_page(producer, wanted, before, dashboard.settings.page_size)
        total = (await producer.counts(group=dashboard.settings.group)).dead
    return await answer_rows(
        dashboard.settings.payloads, serializers.serialize_dead, found.entries, found.next, total=total
    )


@router.get("/one")
async def read_dead(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, dlq_id: Annotated[str, Query(alias="id")]
) -> Response:
    """One dead letter with its whole payload."""
    found = await _read_one(dashboard, ref, dlq_id)
    facts = await asyncio.to_thread(serializers.serialize_dead, found, dashboard.settings.payloads, brief=False)
    async with dashboard.producer(ref) as producer:
        [trace] = await producer.get_tracebacks([facts["id"]])
    return answer({**facts, "traceback": trace})


@router.get("/editable")
async def read_editable(
    dashboard: DashboardDep, user: Viewer, ref: QueueRef, dlq_id: Annotated[str, Query(alias="id")]
) -> Response:
    """The payload of a dead letter as JSON that can be edited."""
    found = await _read_one(dashboard, ref, dlq_id)
    return answer({"payload": await asyncio.to_thread(write_editable, found, dashboard.settings.payloads)})


async def _read_one(dashboard: Dashboard, ref: QueueAddress, dlq_id: str) -> DlqEntry:
    check_ids([dlq_id])
    async with dashboard.producer(ref) as producer:
        found = await producer.get_dead([dlq_id])
    if not found:
        raise HTTPException(404, "This dead letter no longer exists: it was replayed or deleted.")
    return found[0]


@router.get("/export")
async def export_dead(
    dashboard: DashboardDep,
    user: Viewer,
    ref: QueueRef,
    wanted: WantedQuery,
    ids: Annotated[str, Query(max_length=MOST_IDS * 50)] = "",
    until: CursorQuery = None,
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
