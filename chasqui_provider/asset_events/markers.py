"""Markers of jobs that produced an event, in the state of the asset; `asset_events.dedup` reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow._shared.state import AssetStateStoreWriterKind
from airflow._shared.timezones import timezone
from airflow.models.asset_state_store import AssetStateStoreModel as State
from sqlalchemy import delete, select
from sqlalchemy.dialects import mysql, postgresql, sqlite

from chasqui_provider.asset_events.dedup import MARK_PREFIX, mark_of

if TYPE_CHECKING:
    from sqlalchemy import Insert
    from sqlalchemy.orm import Session

_KEPT_FOR = timedelta(days=1)
_SWEEP_EVERY_S = 60.0
_SWEPT_AT_ONCE = 1000
"""Kept small because an event waits for it; the next sweep is a minute later."""
_FIRST_SWEEP_S = 600.0
"""Not at the start: after a long outage, redelivered jobs must find their markers first."""
_next_sweep_s = time.monotonic() + _FIRST_SWEEP_S


def write_markers(session: Session, asset_id: int, jobs: Sequence[Mapping[str, Any]]) -> None:
    """Writes a marker for each job of an event."""
    # Sorted out by key: one statement cannot insert the same key twice.
    values = {mark_of(job): json.dumps(job["id"]) for job in jobs}
    watcher = AssetStateStoreWriterKind.WATCHER.value
    rows = [
        {"asset_id": asset_id, "key": key, "value": value, "last_updated_by_kind": watcher}
        for key, value in values.items()
    ]
    session.execute(insert_unless_there(session.get_bind().dialect.name), rows)


def insert_unless_there(dialect: str) -> Insert:
    """A marker that exists already must not fail the transaction of an event."""
    if dialect == "mysql":
        return mysql.insert(State).prefix_with("IGNORE")
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(State).on_conflict_do_nothing()


def sweep(session: Session) -> None:
    """Removes expired markers, a limited number per call."""
    global _next_sweep_s  # noqa: PLW0603 - one clock a process
    if time.monotonic() < _next_sweep_s:
        return
    _next_sweep_s = time.monotonic() + _SWEEP_EVERY_S
    ours, old = State.key.startswith(MARK_PREFIX), State.updated_at < timezone.utcnow() - _KEPT_FOR
    keys = session.scalars(select(State.key).where(ours, old).limit(_SWEPT_AT_ONCE)).all()
    if keys:
        session.execute(delete(State).where(State.key.in_(keys), old).execution_options(synchronize_session=False))
