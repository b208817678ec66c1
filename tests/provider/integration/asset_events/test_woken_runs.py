"""Every event gets a run of the DAG, in the moments in which Airflow alone would leave it out.

The scheduler is Airflow's own, on SQLite or (`CHASQUI_AIRFLOW_DB=postgresql`) on Postgres.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import event, select, text, update
from sqlalchemy.orm import sessionmaker

pytest.importorskip("airflow.models.asset_state_store", reason="assets have had a state since Airflow 3.3")

from airflow import settings
from airflow._shared.timezones import timezone
from airflow.assets.manager import AssetManager
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.collection import update_dag_parsing_results_in_db
from airflow.executors.base_executor import BaseExecutor
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.asset import AssetDagRunQueue, AssetModel
from airflow.models.dagrun import DagRun
from airflow.models.trigger import Trigger
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, AssetWatcher
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState

from chasqui_provider.assets import queue_asset
from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger
from tests.provider.database import IS_POSTGRES

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("airflow_tables", "listening")]


LEAVES_NONE_OUT = hasattr(AssetDagRunQueue, "asset_event_id")
on_3_3 = pytest.mark.skipif(LEAVES_NONE_OUT, reason="from Airflow 3.4 on nothing is done here")


class Woken:
    """A DAG on the jobs of a queue, what tells of them, and the scheduler that makes its runs."""

    def __init__(self) -> None:
        self.dag_id = f"woken-{uuid4()}"
        self._queues = [f"{self.dag_id}-{n}" for n in range(2)]
        assets = [queue_asset(queue, watchers=[self._watcher(queue)]) for queue in self._queues]
        with DAG(self.dag_id, schedule=assets[0] | assets[1], is_paused_upon_creation=False) as dag:
            EmptyOperator(task_id="take")
        with create_session() as session:
            DagBundlesManager().sync_bundles_to_db(session=session)
            session.flush()
            parsed = [LazyDeserializedDAG.from_dag(dag)]
            update_dag_parsing_results_in_db("dags-folder", None, parsed, {}, None, set(), session=session)
            self._triggers = [self._trigger_of(asset.uri, session) for asset in assets]
        self._scheduler = SchedulerJobRunner(Job(), executors=[BaseExecutor()])

    def _watcher(self, queue: str) -> AssetWatcher:
        return AssetWatcher(name="jobs", trigger=ChasquiMessageTrigger(queue))

    def _trigger_of(self, uri: str, session: Any) -> int:
        (watcher,) = session.scalars(select(AssetModel).where(AssetModel.uri == uri)).one().watchers
        return int(watcher.trigger_id)

    def tell(self, job_id: str, queue: int = 0) -> None:
        """As a triggerer does, of a job on one of two queues."""
        job = {"id": job_id, "attempt": 0, "deliveries": 0, "created_at_ms": 1_800_000_000_000}
        told = TriggerEvent({"queue_name": self._queues[queue], "jobs": [job]})
        Trigger.submit_event(self._triggers[queue], told)

    def schedule(self) -> None:
        """Turns of the scheduler until there is nothing to make or to start; on SQLite it starts a run in a second."""
        give_up_at = time.monotonic() + 60
        while self.turn() and time.monotonic() < give_up_at:
            time.sleep(0.05)

    def turn(self) -> bool:
        """One turn, which makes runs of what is queued; whether anything is left to do."""
        with create_session() as session:
            self._scheduler._do_scheduling(session)
            queued_runs = select(DagRun.id).where(DagRun.dag_id == self.dag_id, DagRun.state == DagRunState.QUEUED)
            queued = select(AssetDagRunQueue.asset_id).where(AssetDagRunQueue.target_dag_id == self.dag_id)
            return bool(session.scalars(queued_runs.union_all(queued)).first())

    def runs(self) -> list[list[str]]:
        """The ids that each run was made for."""
        with create_session() as session:
            of_ours = select(DagRun).where(DagRun.dag_id == self.dag_id).order_by(DagRun.run_after)
            return [
                sorted(job["id"] for told in run.consumed_asset_events for job in told.extra["payload"]["jobs"])
                for run in session.scalars(of_ours)
            ]


@pytest.fixture
def woken() -> Iterator[Woken]:
    dag = Woken()
    yield dag
    with create_session() as session:
        of_ours = DagRun.dag_id == dag.dag_id
        session.execute(update(DagRun).where(of_ours).values(state=DagRunState.SUCCESS))


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """Another process of Airflow's, as far as its database can tell."""
    with ThreadPoolExecutor() as pool:
        yield pool


@contextmanager
def clock_ahead_by(seconds: float) -> Iterator[None]:
    """Airflow's clock, as it is on another machine."""

    class Ahead(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return dt.datetime.now(tz) + dt.timedelta(seconds=seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timezone, "dt", SimpleNamespace(**{**vars(dt), "datetime": Ahead}))
        yield


@contextmanager
def statements() -> Iterator[list[str]]:
    """What is sent to the database meanwhile."""
    executed: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        executed.append(statement)

    event.listen(settings.engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        event.remove(settings.engine, "before_cursor_execute", note)


def while_a_run_is_made(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Future[None]]) -> None:
    """`act` once, between what the scheduler reads for a run and what it writes."""
    create, acts = SerializedDAG.create_dagrun, [act]

    def create_later(*args: Any, **options: Any) -> Any:
        if acts:
            # Where rows are locked it ends only when the run is there.
            wait([acts.pop()()], timeout=1)
        return create(*args, **options)

    monkeypatch.setattr(SerializedDAG, "create_dagrun", create_later)


def test_an_event_that_is_stored_while_a_run_is_made(
    woken: Woken, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_a_run_is_made(monkeypatch, lambda: beside.submit(woken.tell, "b"))
    woken.tell("a")
    woken.schedule()
    beside.shutdown()
    woken.schedule()
    assert woken.runs() == [["a"], ["b"]]


def test_each_of_many_events_gets_one_run(woken: Woken, beside: ThreadPoolExecutor) -> None:
    """Three triggerers and a scheduler, as fast as they can."""
    ids = [[f"{who}-{n}" for n in range(40)] for who in range(3)]

    def tell(own: list[str]) -> None:
        for n, job_id in enumerate(own):
            woken.tell(job_id, queue=n % 2)

    told = [beside.submit(tell, own) for own in ids]
    while wait(told, timeout=0).not_done:
        woken.turn()
    for one in told:
        one.result()
    woken.schedule()
    assert Counter(chain(*woken.runs())) == Counter(chain(*ids))
    assert all(woken.runs()), "no run was made for nothing"


@on_3_3
def test_events_before_the_run_share_it(woken: Woken) -> None:
    for job_id in "abc":
        woken.tell(job_id)
    woken.schedule()
    assert woken.runs() == [["a", "b", "c"]]
    woken.tell("d")
    woken.schedule()
    assert woken.runs() == [["a", "b", "c"], ["d"]]


@pytest.mark.skipif(not LEAVES_NONE_OUT, reason="Airflow 3.3 alone would leave events out")
def test_airflow_3_4_gives_each_event_its_run_and_its_tables_are_left_alone(woken: Woken) -> None:
    with statements() as executed:
        for job_id in "abc":
            woken.tell(job_id)
    woken.schedule()
    assert sorted(chain(*woken.runs())) == ["a", "b", "c"]
    assert not [one for one in executed if "FOR UPDATE" in one or one.startswith("UPDATE asset_dag_run_queue")]


@on_3_3
@pytest.mark.parametrize("seconds", [0.045, 5])
def test_no_event_holds_rows_to_wait_for_a_clock(woken: Woken, seconds: float) -> None:
    with clock_ahead_by(seconds):
        woken.tell("a")
    woken.turn()
    begun_s = time.monotonic()
    woken.tell("b")
    assert time.monotonic() - begun_s < 0.3


@on_3_3
def test_an_event_whose_triggerer_has_a_clock_that_is_behind(woken: Woken) -> None:
    with clock_ahead_by(seconds=0.3):
        woken.tell("a")
    woken.tell("b")
    woken.schedule()
    assert woken.runs() == [["a", "b"]]

    with clock_ahead_by(seconds=0.06):
        woken.tell("c")
    woken.turn()
    woken.tell("d")
    woken.schedule()
    assert woken.runs() == [["a", "b"], ["c"], ["d"]]


@on_3_3
def test_with_clocks_that_differ_by_more_an_event_is_left_to_airflow(
    woken: Woken, caplog: pytest.LogCaptureFixture
) -> None:
    with clock_ahead_by(seconds=5):
        woken.tell("a")
    woken.turn()
    woken.tell("b")
    assert "behind another triggerer's" in caplog.text
    woken.turn()
    with clock_ahead_by(seconds=6):
        woken.tell("c")
    woken.turn()
    assert sorted(chain(*woken.runs())) == ["a", "b", "c"]


@on_3_3
@pytest.mark.skipif(not IS_POSTGRES, reason="SQLite locks no rows")
def test_rows_that_stay_locked_hold_no_event_up(
    woken: Woken, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_timeouts: list[str | None] = []
    queue_dagruns = AssetManager._queue_dagruns

    def look(session: Any, **options: Any) -> None:
        lock_timeouts.append(session.scalar(text("SHOW lock_timeout")))
        queue_dagruns(session=session, **options)

    monkeypatch.setattr(AssetManager, "_queue_dagruns", look)
    with sessionmaker(settings.engine)() as holder:
        holder.execute(text("SELECT 1 FROM dag_schedule_asset_reference FOR UPDATE"))
        begun_s = time.monotonic()
        woken.tell("a")
        assert 1.5 < time.monotonic() - begun_s < 5
    assert re.search(r"the runs of asset \d+ are still locked; Airflow handles its event", caplog.text)
    woken.tell("b")
    woken.schedule()
    assert "a" in chain(*woken.runs())
    assert lock_timeouts == ["0", "0"], "what Airflow itself does waits as long as before"


@pytest.mark.skipif(not IS_POSTGRES, reason="SQLite has one writer at a time")
@pytest.mark.parametrize("queue", [0, 1])
def test_events_that_are_stored_at_once_while_a_run_is_made(
    woken: Woken, queue: int, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first would be too early for the run after that of the second, or find the DAG queued and not queue it."""
    listened, goes_on = Future[None](), Future[None]()
    queue_dagruns = AssetManager._queue_dagruns

    def slow(**options: Any) -> None:
        monkeypatch.setattr(AssetManager, "_queue_dagruns", queue_dagruns)
        listened.set_result(None)
        goes_on.result(20)
        queue_dagruns(**options)

    def release() -> None:
        if not goes_on.done():
            goes_on.set_result(None)

    monkeypatch.setattr(AssetManager, "_queue_dagruns", slow)
    told = [beside.submit(woken.tell, "a")]
    listened.result(20)
    told.append(beside.submit(woken.tell, "b", queue))
    wait(told, timeout=1)
    while_a_run_is_made(monkeypatch, lambda: beside.submit(release))
    woken.schedule()
    release()
    wait(told, timeout=20)
    woken.schedule()
    assert sorted(chain(*woken.runs())) == ["a", "b"]
    assert all(woken.runs())


@pytest.mark.skipif(not IS_POSTGRES, reason="SQLite has one writer at a time")
def test_an_event_that_was_begun_before_another_and_stored_after_its_run(
    woken: Woken, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, run_made = Future[None](), Future[None]()
    notify = AssetManager.notify_asset_changed

    def slow(asset: Any) -> None:
        monkeypatch.setattr(AssetManager, "notify_asset_changed", notify)
        begun.set_result(None)
        run_made.result(20)

    monkeypatch.setattr(AssetManager, "notify_asset_changed", slow)
    early = beside.submit(woken.tell, "early")
    begun.result(20)
    woken.tell("late")
    woken.schedule()
    run_made.set_result(None)
    early.result(20)
    woken.schedule()
    assert sorted(woken.runs()) == [["early"], ["late"]]
