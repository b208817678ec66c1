"""Sees to it that an event of ours gets a run of every DAG on its asset, and one only.

Airflow queues a DAG when an event is stored. The scheduler gives the run that it makes of this the events up to the
moment at which the DAG was queued and after that of the DAG's last run, and takes the DAG off the queue. An event is
left out, until the next one or for good, when

- it is stored while the DAG is queued already: its time is later than that in the queue;
- another triggerer began to store it earlier than one that has had its run, or has a clock that is behind: its time is
  earlier than that of the last run;
- it is stored while the run is made, and the DAG taken off the queue after that.

`put_in_line` is for the first two and, where rows can be locked, for the third. SQLite locks no rows: there,
`queue_what_was_left_out` puts the DAG on the queue again.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow._shared.timezones import timezone
from airflow.models.asset import AssetDagRunQueue as Queued
from airflow.models.asset import AssetEvent
from airflow.models.asset import DagScheduleAssetReference as Reference
from airflow.models.dagrun import DagRun
from airflow.utils.sqlalchemy import with_row_locks
from airflow.utils.types import DagRunType
from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import object_session

from chasqui_provider.told import told_by_us

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session

_log = logging.getLogger(__name__)

_A_MOMENT = timedelta(microseconds=1)
_CLOCKS_DIFFER_BY = timedelta(seconds=1)
"""Of triggerers, at most: an event waits for the difference."""


def put_in_line(session: Session, event: AssetEvent) -> None:
    """Gives an event that is about to be stored a time after the last runs, and that of runs yet to be made with it."""
    dags, in_queue = _dags_on(event.asset_id), Queued.asset_id == event.asset_id
    # Whoever stores an event for one of these DAGs holds these rows until the commit, so that no other comes between.
    on_assets = select(Reference.dag_id).where(Reference.dag_id.in_(dags))
    session.execute(with_row_locks(on_assets.order_by(Reference.dag_id, Reference.asset_id), session))
    # Waits for a scheduler that is making their runs. What it leaves is not touched by any before the commit.
    queued = select(Queued.asset_id, Queued.created_at).where(or_(in_queue, Queued.target_dag_id.in_(dags)))
    rows = session.execute(with_row_locks(queued, session, key_share=False))
    waiting = [created_at for asset_id, created_at in rows if asset_id == event.asset_id]
    event.timestamp = max([_after_the_last_runs(session, dags), *waiting])
    queue_anew = update(Queued).where(in_queue).values(created_at=event.timestamp)
    session.execute(queue_anew.execution_options(synchronize_session=False))


def _dags_on(asset_id: int) -> Select[Any]:
    return select(Reference.dag_id).where(Reference.asset_id == asset_id)


def _after_the_last_runs(session: Session, dags: Select[Any]) -> datetime:
    """Now; or, where the clock of whoever told last is ahead of this one, just after what that said."""
    now = timezone.utcnow()
    ahead = session.scalar(
        select(func.max(DagRun.run_after)).where(
            DagRun.run_after >= now, DagRun.run_type == DagRunType.ASSET_TRIGGERED, DagRun.dag_id.in_(dags)
        )
    )
    if ahead is None:
        return now
    behind = ahead - now + _A_MOMENT
    if behind > _CLOCKS_DIFFER_BY:
        _log.warning("this clock is %s behind that of another triggerer: jobs wake their DAGs late", behind)
    # Airflow queues the DAG by this clock, and a moment that has not come yet would be too late for that run.
    time.sleep(min(behind, _CLOCKS_DIFFER_BY).total_seconds())
    return now + behind


def queue_what_was_left_out(run: DagRun) -> None:
    """Queues the DAG of a run that starts again if it has events that no run has, and is not queued.

    Such an event was stored before its DAG was taken off the queue, and that is before this run can start.
    """
    session = object_session(run)
    if session is None or run.run_type != DagRunType.ASSET_TRIGGERED or session.get_bind().dialect.name != "sqlite":
        return
    # The scheduler's own changes are flushed where it is prepared for a database that is locked.
    with session.no_autoflush:
        assets = [{"asset_id": asset_id, "target_dag_id": run.dag_id} for asset_id in _left_out(session, run.dag_id)]
        if assets:
            session.execute(sqlite.insert(Queued).on_conflict_do_nothing(), assets)


def _left_out(session: Session, dag_id: str) -> set[int]:
    """The assets that have told of something after the last run of a DAG."""
    last_run = select(func.max(DagRun.run_after)).where(
        DagRun.dag_id == dag_id, DagRun.run_type == DagRunType.ASSET_TRIGGERED
    )
    after = (
        select(AssetEvent.asset_id, AssetEvent.extra)
        .join(Reference, Reference.asset_id == AssetEvent.asset_id)
        .where(Reference.dag_id == dag_id, AssetEvent.timestamp > last_run.scalar_subquery())
    )
    return {asset_id for asset_id, extra in session.execute(after) if told_by_us(extra)}
