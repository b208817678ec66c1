"""The API's actions on jobs that wait or are delayed, on one job, and adding one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from chasqui_engine import AddOptions, BackoffSpec, ConfigError, JobRetryOverride, Producer
from chasqui_engine.dashboard import audit
from chasqui_engine.dashboard.api.body import read_body
from chasqui_engine.dashboard.api.dead_letter_query import MOST_IDS, check_ids
from chasqui_engine.dashboard.api.payload_input import MOST_BODY_BYTES, parse_payload
from chasqui_engine.dashboard.api.responses import answer
from chasqui_engine.dashboard.dependencies import Dashboard, DashboardDep, Editor, QueueAddress, QueueRef
from chasqui_engine.values.validation import check_job_id

router = APIRouter(prefix="/api/queue")

_MOST_MS = 10**14
_MOST_ATTEMPTS = 2**32 - 1
_ABORT_S = 2.0
"""How long the page waits for a worker to stop a job."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Chosen(_Body):
    """Jobs by their ids, or entries by theirs."""

    ids: Annotated[list[str], Field(max_length=MOST_IDS)]


class Rescheduled(Chosen):
    """Delayed jobs, and when they shall run."""

    at_ms: Annotated[int, Field(ge=0, le=_MOST_MS)]


class OneJob(_Body):
    """A job by its id."""

    id: str


class NewJob(_Body):
    """A job to add."""

    name: str = ""
    payload: str
    """JSON."""
    id: str | None = None
    at_ms: Annotated[int, Field(ge=0, le=_MOST_MS)] | None = None
    """When it shall run; None is now."""
    attempts: Annotated[int, Field(ge=1, le=_MOST_ATTEMPTS)] | None = None
    backoff_ms: Annotated[int, Field(ge=0, le=_MOST_MS)] | None = None

    @property
    def options(self) -> AddOptions:
        """As the engine takes them."""
        backoff = None if self.backoff_ms is None else BackoffSpec.fixed(self.backoff_ms)
        own = self.attempts is not None or backoff is not None
        return AddOptions(id=self.id, name=self.name, retry=JobRetryOverride(self.attempts, backoff) if own else None)


@router.post("/waiting/remove")
async def remove_waiting(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Deletes waiting jobs, by the ids of their entries."""
    ids = check_ids((await read_body(request, Chosen)).ids)
    with audit.record(user, "remove", ref.connection, ref.queue, entries=ids) as entry:
        async with dashboard.producer(ref) as producer:
            entry["count"] = await producer.remove_waiting(ids, group=dashboard.settings.group)
    dashboard.refresh(ref)
    return answer({"selected": len(ids), "done": entry["count"]})


@router.post("/delayed/run")
async def run_delayed(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Runs delayed jobs now, those between two retries too."""
    ids = _check_job_ids((await read_body(request, Chosen)).ids)
    return await _each(dashboard, user, ref, "run now", ids, lambda producer, one: producer.run_delayed_now(one))


@router.post("/delayed/reschedule")
async def reschedule_delayed(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Gives delayed jobs another time."""
    chosen = await read_body(request, Rescheduled)
    ids, at_s = _check_job_ids(chosen.ids), chosen.at_ms / 1000
    return await _each(
        dashboard,
        user,
        ref,
        "reschedule",
        ids,
        lambda producer, one: producer.reschedule_delayed(one, at_s),
        at_ms=chosen.at_ms,
    )


async def _each(
    dashboard: Dashboard,
    user: str,
    ref: QueueAddress,
    action: str,
    ids: list[str],
    act: Callable[[Producer, str], Awaitable[bool]],
    **facts: Any,
) -> Response:
    with audit.record(user, action, ref.connection, ref.queue, ids=ids, **facts, count=0) as entry:
        async with dashboard.producer(ref) as producer:
            for one in ids:
                entry["count"] += await act(producer, one)
    dashboard.refresh(ref)
    return answer({"selected": len(ids), "done": entry["count"]})


@router.post("/delayed/cancel")
async def cancel_delayed(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Cancels delayed jobs, those between two retries too: they do not run."""
    ids = _check_job_ids((await read_body(request, Chosen)).ids)
    with audit.record(user, "cancel", ref.connection, ref.queue, ids=ids) as entry:
        async with dashboard.producer(ref) as producer:
            entry["count"] = sum(await producer.cancel_delayed_bulk(ids))
    dashboard.refresh(ref)
    return answer({"selected": len(ids), "done": entry["count"]})


@router.post("/job/remove")
async def remove_job(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Deletes a job wherever it is, unless it runs."""
    job_id = check_job_id((await read_body(request, OneJob)).id)
    with audit.record(user, "remove", ref.connection, ref.queue, ids=[job_id]) as entry:
        async with dashboard.producer(ref) as producer:
            report = await producer.remove_report(job_id, group=dashboard.settings.group)
        entry["count"] = int(any(found for place, found in report.items() if place != "active"))
    dashboard.refresh(ref)
    return answer({"selected": 1, "done": entry["count"], "active": report["active"]})


@router.post("/job/abort")
async def abort_job(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Stops a job wherever it is; waits a moment for the worker that runs it."""
    job_id = check_job_id((await read_body(request, OneJob)).id)
    with audit.record(user, "abort", ref.connection, ref.queue, ids=[job_id]) as entry:
        async with dashboard.producer(ref) as producer:
            state = await producer.abort(job_id, timeout=_ABORT_S, group=dashboard.settings.group)
        entry.update(state=state, count=int(state in ("removed", "aborted")))
    dashboard.refresh(ref)
    return answer({"selected": 1, "done": entry["count"], "state": state})


@router.post("/add")
async def add_job(dashboard: DashboardDep, user: Editor, ref: QueueRef, request: Request) -> Response:
    """Adds one job. `added` is false when its id is taken."""
    new = await read_body(request, NewJob, most_bytes=MOST_BODY_BYTES)
    payload, options = parse_payload(new.payload), new.options
    with audit.record(user, "add", ref.connection, ref.queue, name=new.name) as entry:
        # The producer counts what it adds: one at a time, so that the count is of this job.
        async with dashboard.adding, dashboard.producer(ref) as producer:
            before = producer.added
            if new.at_ms is None:
                job_id = await producer.add_with_options(payload, options)
            else:
                job_id = await producer.add_at_with_options(new.at_ms / 1000, payload, options)
            added = producer.added > before
        entry.update(ids=[job_id], count=int(added))
    dashboard.refresh(ref)
    return answer({"id": job_id, "added": added})


def _check_job_ids(ids: list[str]) -> list[str]:
    if not ids:
        raise ConfigError("ids: pass the id of at least one job")
    return [check_job_id(one) for one in ids]
