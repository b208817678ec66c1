"""The mark of a told job is stored with its event, or neither is: in Airflow's own tables, on SQLite or Postgres."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("airflow.models.asset_state_store", reason="assets have had a state since Airflow 3.3")

from airflow._shared.timezones import timezone
from airflow.models.asset import AssetActive, AssetDagRunQueue, AssetEvent, AssetModel, AssetWatcherModel
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.trigger import Trigger
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from sqlalchemy import select, text, update
from sqlalchemy.dialects import mysql, postgresql

from chasqui_provider.asset_events import markers as marks_of_jobs
from chasqui_provider.asset_events.dedup import mark_of

# Importing Airflow's models warns.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("airflow_tables", "listening")]


@pytest.fixture
def watcher() -> tuple[int, int]:
    """A trigger that watches for an asset, as a DAG file would make them: their numbers."""
    name = f"orders-{uuid4()}"
    with create_session() as session:
        asset = AssetModel(name=name, uri=f"chasqui://c/{name}")
        trigger = Trigger(classpath="chasqui_provider.triggers.chasqui.ChasquiMessageTrigger", kwargs={})
        session.add_all([asset, trigger, AssetActive.for_asset(asset)])
        session.flush()
        session.add(AssetWatcherModel(name=name, asset_id=asset.id, trigger_id=trigger.id))
        return asset.id, trigger.id


def job(job_id: str, attempt: int = 0) -> dict[str, Any]:
    return {"id": job_id, "attempt": attempt, "deliveries": 0, "created_at_ms": 1_800_000_000_000}


def told(*jobs: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent({"queue_name": "q", "jobs": list(jobs)})


def marks(asset_id: int) -> set[str]:
    with create_session() as session:
        return set(session.scalars(select(AssetStateStoreModel.key).where(AssetStateStoreModel.asset_id == asset_id)))


def events(asset_id: int) -> int:
    with create_session() as session:
        return len(session.scalars(select(AssetEvent.id).where(AssetEvent.asset_id == asset_id)).all())


def test_the_jobs_of_a_stored_event_are_marked(watcher: tuple[int, int]) -> None:
    asset_id, trigger_id = watcher
    Trigger.submit_event(trigger_id, told(job("a"), job("b")))
    Trigger.submit_event(trigger_id, told(job("b", attempt=1), job("b", attempt=1), job("c")))
    assert marks(asset_id) == {mark_of(job(one)) for one in "abc"}
    assert events(asset_id) == 2


def test_of_an_event_that_is_not_stored_no_mark_stays(
    watcher: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asset_id, trigger_id = watcher

    def killed(session: Any, **_: Any) -> None:
        marked = session.scalars(select(AssetStateStoreModel.key).where(AssetStateStoreModel.asset_id == asset_id))
        assert marked.all() == [mark_of(job("a"))]
        raise RuntimeError("killed before the commit")

    monkeypatch.setattr("airflow.assets.manager.AssetManager._queue_dagruns", killed)
    with pytest.raises(RuntimeError, match="killed"):
        Trigger.submit_event(trigger_id, told(job("a")))
    assert not marks(asset_id)
    assert not events(asset_id)


@pytest.mark.parametrize("payload", [None, 3, {"jobs": [job("a")]}, {"queue_name": "q", "events": [{"event": "dlq"}]}])
def test_events_of_others_leave_no_mark(watcher: tuple[int, int], payload: Any) -> None:
    asset_id, trigger_id = watcher
    Trigger.submit_event(trigger_id, TriggerEvent(payload))
    assert events(asset_id) == 1
    assert not marks(asset_id)


def test_marks_go_after_a_day_but_not_at_once_after_a_start(
    watcher: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asset_id, trigger_id = watcher
    Trigger.submit_event(trigger_id, told(job("old"), job("new")))
    with create_session() as session:
        session.add(AssetStateStoreModel(asset_id=asset_id, key="of somebody else", value="1"))
        session.flush()
        kept = AssetStateStoreModel.key != mark_of(job("new"))
        long_ago = timezone.utcnow() - timedelta(days=1, minutes=1)
        session.execute(update(AssetStateStoreModel).where(kept).values(updated_at=long_ago))
    Trigger.submit_event(trigger_id, told(job("next")))
    assert mark_of(job("old")) in marks(asset_id)

    monkeypatch.setattr(marks_of_jobs, "_next_sweep_s", 0.0)
    Trigger.submit_event(trigger_id, told(job("last")))
    assert marks(asset_id) == {"of somebody else", *(mark_of(job(one)) for one in ("new", "next", "last"))}


changes_the_queue = pytest.mark.skipif(
    hasattr(AssetDagRunQueue, "asset_event_id"), reason="from Airflow 3.4 on the queue is left alone"
)


def queue_a_run(asset_id: int) -> datetime:
    """As an earlier event does; long ago, so that the difference shows."""
    long_ago = timezone.utcnow() - timedelta(hours=1)
    with create_session() as session:
        dag_id = f"woken-{asset_id}"
        session.merge(DagBundleModel(name="tests"))
        session.flush()
        session.add(DagModel(dag_id=dag_id, bundle_name="tests"))
        session.flush()
        session.add(AssetDagRunQueue(asset_id=asset_id, target_dag_id=dag_id, created_at=long_ago))
    return long_ago


def queued_at(asset_id: int) -> datetime:
    with create_session() as session:
        return session.scalars(select(AssetDagRunQueue.created_at).where(AssetDagRunQueue.asset_id == asset_id)).one()


@changes_the_queue
@pytest.mark.parametrize("payload", [{"queue_name": "q", "jobs": [job("a")]}, {"queue_name": "q", "events": [{}]}])
def test_a_run_that_is_queued_and_not_made_gets_what_is_told_meanwhile(
    watcher: tuple[int, int], payload: dict[str, Any]
) -> None:
    """Airflow gives a run the events up to the moment at which it was queued."""
    asset_id, trigger_id = watcher
    queue_a_run(asset_id)
    Trigger.submit_event(trigger_id, TriggerEvent(payload))
    with create_session() as session:
        told_at = session.scalar(select(AssetEvent.timestamp).where(AssetEvent.asset_id == asset_id))
    assert told_at is not None
    assert queued_at(asset_id) >= told_at


@changes_the_queue
def test_the_switch_leaves_queued_runs_alone(watcher: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CHASQUI__COMPLETE_ASSET_RUNS", "False")
    asset_id, trigger_id = watcher
    queued = queue_a_run(asset_id)
    Trigger.submit_event(trigger_id, told(job("a")))
    assert queued_at(asset_id) == queued
    assert marks(asset_id) == {mark_of(job("a"))}


@changes_the_queue
def test_events_of_others_leave_queued_runs_alone(watcher: tuple[int, int]) -> None:
    asset_id, trigger_id = watcher
    queued = queue_a_run(asset_id)
    Trigger.submit_event(trigger_id, TriggerEvent({"of": "another provider"}))
    assert queued_at(asset_id) == queued


def test_an_error_of_ours_does_not_cost_the_event(watcher: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    asset_id, trigger_id = watcher

    def fail(session: Any) -> None:
        session.execute(text("select * from no_such_table"))

    monkeypatch.setattr(marks_of_jobs, "sweep", fail)
    Trigger.submit_event(trigger_id, told(job("a")))
    assert events(asset_id) == 1
    assert not marks(asset_id), "taken back as a whole"


@pytest.mark.parametrize(
    ("name", "dialect", "clause"),
    [("mysql", mysql.dialect(), "INSERT IGNORE"), ("postgresql", postgresql.dialect(), "ON CONFLICT DO NOTHING")],
)
def test_a_mark_that_is_there_fails_nothing_on_other_databases(name: str, dialect: Any, clause: str) -> None:
    assert clause in str(marks_of_jobs.insert_unless_there(name).compile(dialect=dialect))
