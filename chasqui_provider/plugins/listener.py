"""Completes what Airflow stores when a trigger of ours tells of jobs or events (Airflow 3.3 and later).

Airflow calls this in the process that stores asset events, between the event and its commit:

- The jobs of the event are marked as told. Both are there or neither is, wherever a triggerer is killed.
- A run of a DAG that the asset has queued before, and that is not made yet, is to have this event as well. Airflow
  would give it only those that were there when it was queued, and leave the others to the run of the next event.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from chasqui_provider.told import MARK_PREFIX, mark_of

if TYPE_CHECKING:
    from sqlalchemy import Insert
    from sqlalchemy.orm import Session

_KEPT_FOR = timedelta(days=1)
_SWEEP_EVERY_S = 60.0
_SWEPT_AT_ONCE = 1000
"""An event waits for it: there is another sweep a minute later."""
_FIRST_SWEEP_S = 600.0
"""Not at the start: after a long outage, jobs that come again must find their marks first."""
_next_sweep_s = time.monotonic() + _FIRST_SWEEP_S


@hookimpl
def on_asset_event_emitted(asset_event: Any) -> None:
    """Called for every asset event; only those of our triggers concern us."""
    payload = _told(asset_event.extra)
    if payload is None or (found := _transaction_of(asset_event)) is None:
        return
    session, asset_id = found
    # What goes wrong here must not cost the event, as it would on servers that end a transaction with its first error.
    with session.begin_nested():
        _join_runs_that_wait(session, asset_id)
        if jobs := payload.get("jobs"):
            _mark(session, asset_id, jobs)
            _sweep(session)


def _told(extra: Any) -> Mapping[str, Any] | None:
    payload = extra.get("payload") if isinstance(extra, dict) and extra.get("from_trigger") else None
    ours = isinstance(payload, dict) and "queue_name" in payload and ("jobs" in payload or "events" in payload)
    return payload if ours else None


def _transaction_of(asset_event: Any) -> tuple[Session, int] | None:
    """The session that has this event and has not committed it yet, and the asset's number.

    Airflow hands listeners no session, but a thread has one at a time. Should it store events by other means one day,
    nothing is found and nothing marked.
    """
    from airflow import settings
    from airflow.models.asset import AssetEvent

    if settings.Session is None or not settings.Session.registry.has():
        return None
    session = settings.Session()
    for stored in session:
        if isinstance(stored, AssetEvent) and stored.extra is asset_event.extra:
            return session, stored.asset_id
    return None


def _join_runs_that_wait(session: Session, asset_id: int) -> None:
    """A run takes the events up to the moment at which it was queued: let that be now."""
    from airflow._shared.timezones import timezone
    from airflow.models.asset import AssetDagRunQueue
    from sqlalchemy import update

    waiting = update(AssetDagRunQueue).where(AssetDagRunQueue.asset_id == asset_id)
    session.execute(waiting.values(created_at=timezone.utcnow()).execution_options(synchronize_session=False))


def _mark(session: Session, asset_id: int, jobs: Sequence[Mapping[str, Any]]) -> None:
    from airflow._shared.state import AssetStateStoreWriterKind

    # By key: no statement can insert the same one twice.
    values = {mark_of(job): json.dumps(job["id"]) for job in jobs}
    watcher = AssetStateStoreWriterKind.WATCHER.value
    rows = [
        {"asset_id": asset_id, "key": key, "value": value, "last_updated_by_kind": watcher}
        for key, value in values.items()
    ]
    session.execute(_insert_unless_there(session.get_bind().dialect.name), rows)


def _insert_unless_there(dialect: str) -> Insert:
    """A mark that is there already must not fail the transaction of an event."""
    from airflow.models.asset_state_store import AssetStateStoreModel
    from sqlalchemy.dialects import mysql, postgresql, sqlite

    if dialect == "mysql":
        return mysql.insert(AssetStateStoreModel).prefix_with("IGNORE")
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(AssetStateStoreModel).on_conflict_do_nothing()


def _sweep(session: Session) -> None:
    """Removes marks that nobody can ask for any more, some at a time."""
    global _next_sweep_s  # noqa: PLW0603 - one clock a process
    if time.monotonic() < _next_sweep_s:
        return
    _next_sweep_s = time.monotonic() + _SWEEP_EVERY_S
    from airflow._shared.timezones import timezone
    from airflow.models.asset_state_store import AssetStateStoreModel as State
    from sqlalchemy import delete, select

    ours, old = State.key.startswith(MARK_PREFIX), State.updated_at < timezone.utcnow() - _KEPT_FOR
    keys = session.scalars(select(State.key).where(ours, old).limit(_SWEPT_AT_ONCE)).all()
    if keys:
        session.execute(delete(State).where(State.key.in_(keys), old).execution_options(synchronize_session=False))
