"""Completes what Airflow stores with an asset event of this provider's triggers (Airflow 3.3 and later).

Airflow calls `on_asset_event_emitted` in the process that stores an asset event, between the event and its commit: what
is written here is there with the event, or neither is, wherever a triggerer is killed. It calls `on_dag_run_running` in
the scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from chasqui_provider.asset_events.dedup import is_ours

if TYPE_CHECKING:
    from airflow.models.asset import AssetEvent
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session


@hookimpl
def on_asset_event_emitted(asset_event: Any) -> None:
    """Called for every asset event; only those of this provider's triggers are completed."""
    payload = is_ours(asset_event.extra)
    if payload is None or (found := _find_in_session(asset_event)) is None:
        return
    # Models are imported where they are needed: every process of Airflow loads this module, and few have a database.
    from chasqui_provider.asset_events import markers, run_queue

    session, event = found
    # In a savepoint: some databases abort the whole transaction at the first error, and the event would be lost.
    with session.begin_nested():
        if jobs := payload.get("jobs"):
            markers.write_markers(session, event.asset_id, jobs)
            markers.sweep(session)
    if run_queue.are_completed_here():
        run_queue.put_in_line(session, event)  # last: it takes locks until the commit


@hookimpl
def on_dag_run_running(dag_run: DagRun) -> None:
    """Called when a run starts, in the transaction in which it does."""
    from chasqui_provider.asset_events import run_queue

    if run_queue.are_completed_here():
        run_queue.queue_what_was_left_out(dag_run)


def _find_in_session(asset_event: Any) -> tuple[Session, AssetEvent] | None:
    """The session that has this event and has not committed it yet, and the event as it has it.

    Airflow hands listeners no session, but a thread has one at a time. If it stores events by other means,
    no session is found and no marker written.
    """
    from airflow import settings
    from airflow.models.asset import AssetEvent

    if settings.Session is None or not settings.Session.registry.has():
        return None
    session = settings.Session()
    for stored in session:
        if isinstance(stored, AssetEvent) and stored.extra is asset_event.extra:
            return session, stored
    return None
