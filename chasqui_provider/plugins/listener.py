"""Marks the jobs of an asset event as told, in the transaction that stores the event (Airflow 3.3 and later).

Airflow calls this in the process that stores events, between the event and its commit. Both are there or neither is,
wherever a triggerer is killed.
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
_SWEEP_EVERY_S = 3600.0
_next_sweep_s = time.monotonic() + _SWEEP_EVERY_S
"""Not at the start: after a long outage, jobs that come again must find their marks first."""


@hookimpl
def on_asset_event_emitted(asset_event: Any) -> None:
    """Called for every asset event; only those of a `ChasquiMessageTrigger` concern us."""
    jobs = _told_jobs(asset_event.extra)
    if jobs and (found := _transaction_of(asset_event)) is not None:
        session, asset_id = found
        _mark(session, asset_id, jobs)
        _sweep(session)


def _told_jobs(extra: Any) -> Sequence[Mapping[str, Any]]:
    payload = extra.get("payload") if isinstance(extra, dict) and extra.get("from_trigger") else None
    if isinstance(payload, dict) and "queue_name" in payload:
        return payload.get("jobs") or ()
    return ()


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
    """Removes marks that nobody can ask for any more, now and then."""
    global _next_sweep_s  # noqa: PLW0603 - one clock a process
    if time.monotonic() < _next_sweep_s:
        return
    _next_sweep_s = time.monotonic() + _SWEEP_EVERY_S
    from airflow._shared.timezones import timezone
    from airflow.models.asset_state_store import AssetStateStoreModel
    from sqlalchemy import delete

    old = AssetStateStoreModel.updated_at < timezone.utcnow() - _KEPT_FOR
    session.execute(delete(AssetStateStoreModel).where(AssetStateStoreModel.key.startswith(MARK_PREFIX), old))
