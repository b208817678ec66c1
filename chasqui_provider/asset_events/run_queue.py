"""Ensures one run of every DAG for each of this provider's asset events on Airflow 3.3, which can miss events.

Airflow 3.4 keeps a row in the queue for each event and leaves none out: there, nothing here is needed or done. What is
done changes rows of Airflow's own tables, so `[chasqui] complete_asset_runs` switches it off.

Airflow 3.3 queues a DAG when an event is stored. The scheduler gives the run that it makes of this the events up to the
moment at which the DAG was queued and after that of the DAG's last run, and takes the DAG off the queue. An event is
left out, until the next one or for good, when

- it is stored while the DAG is queued already: its time is later than that in the queue;
- another triggerer began to store it earlier than one that has had its run, or has a clock that is behind: its time is
  earlier than that of the last run;
- it is stored while the run is made, and the DAG taken off the queue after that.

`put_in_line` is for the first two and, where rows can be locked, for the third. SQLite locks no rows: there,
`queue_what_was_left_out` puts the DAG on the queue again. An event for which rows stay locked, or whose time cannot be
moved at once, is left to Airflow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import object_session

from chasqui_provider.asset_events.dedup import is_ours
from chasqui_provider.version_compat import conf, may_leave_events_out

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session

_log = logging.getLogger(__name__)

_A_MOMENT = timedelta(microseconds=1)
_CLOCKS_DIFFER_BY = timedelta(milliseconds=50)
"""Largest clock difference between triggerers; an event waits that long, with rows locked."""
_LOCK_TIMEOUT = "2s"


def are_completed_here() -> bool:
    """Whether this Airflow can miss events and `[chasqui] complete_asset_runs` is on."""
    return may_leave_events_out() and conf.getboolean("chasqui", "complete_asset_runs", fallback=True)


def put_in_line(session: Session, event: AssetEvent) -> None:
    """Sets the time of an event about to be stored to after the last runs, and updates the queued runs to match."""
    try:
        with session.begin_nested(), _limit_lock_wait(session):
            _put_in_line(session, event)
    except OperationalError as err:
        _log.warning(
            "Airflow's rows for the runs of asset %d are still locked; Airflow handles its event: %s",
            event.asset_id,
            str(err.orig).splitlines()[0],
        )


@contextmanager
def _limit_lock_wait(session: Session) -> Iterator[None]:
    """Limits how long to wait for row locks, where the database has such a setting."""
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    before = session.scalar(select(func.current_setting("lock_timeout")))
    session.execute(select(func.set_config("lock_timeout", _LOCK_TIMEOUT, True)))
    yield
    # It would last to the end of the transaction. After an error, the savepoint brings it back.
    session.execute(select(func.set_config("lock_timeout", before, True)))


def _put_in_line(session: Session, event: AssetEvent) -> None:
    dags, in_queue = _dags_on(event.asset_id), Queued.asset_id == event.asset_id
    # Each process that stores an event for one of these DAGs holds these rows until the commit: no other comes between.
    on_assets = select(Reference.dag_id).where(Reference.dag_id.in_(dags))
    session.execute(with_row_locks(on_assets.order_by(Reference.dag_id, Reference.asset_id), session))
    # Waits for a scheduler that is making their runs. What it leaves is not touched by any before the commit.
    queued = select(Queued.asset_id, Queued.created_at).where(or_(in_queue, Queued.target_dag_id.in_(dags)))
    rows = session.execute(with_row_locks(queued, session, key_share=False))
    waiting = [created_at for asset_id, created_at in rows if asset_id == event.asset_id]
    if (time_of_event := _after_the_last_runs(session, dags)) is None:
        return
    event.timestamp = max([time_of_event, *waiting])
    queue_again = update(Queued).where(in_queue).values(created_at=event.timestamp)
    session.execute(queue_again.execution_options(synchronize_session=False))


def _dags_on(asset_id: int) -> Select[Any]:
    return select(Reference.dag_id).where(Reference.asset_id == asset_id)


def _after_the_last_runs(session: Session, dags: Select[Any]) -> datetime | None:
    """Now; or, where another triggerer's clock is ahead, just after the run that it caused; None if that is far off."""
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
        _log.warning("this clock is %s behind another triggerer's; Airflow handles the event", behind)
        return None
    # Airflow queues the DAG by this clock, and a moment that has not come yet would be too late for that run.
    time.sleep(behind.total_seconds())
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
    """The assets that have events after the last run of a DAG."""
    last_run = select(func.max(DagRun.run_after)).where(
        DagRun.dag_id == dag_id, DagRun.run_type == DagRunType.ASSET_TRIGGERED
    )
    after = (
        select(AssetEvent.asset_id, AssetEvent.extra)
        .join(Reference, Reference.asset_id == AssetEvent.asset_id)
        .where(Reference.dag_id == dag_id, AssetEvent.timestamp > last_run.scalar_subquery())
    )
    return {asset_id for asset_id, extra in session.execute(after) if is_ours(extra)}
