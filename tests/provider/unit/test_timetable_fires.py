"""The runs of a DAG are exactly the engine's fires: over random specs, outages and times of parsing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.sdk import DAG
from airflow.timetables.base import TimeRestriction, Timetable
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import instance
from sqlalchemy.orm import Session

from chasqui_engine import MissedFiresPolicy, RepeatableSpec, RepeatPattern, first_fire_ms, plan_fires
from chasqui_engine.errors import ConfigError
from chasqui_provider.timetables import fires, repeatable
from chasqui_provider.timetables.repeatable import MissedFireError, RepeatableTimetable, spec_from_dag

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SPRING_2027 = 1_804_900_000_000  # some days before New York changes its clocks

CRONS = ["* * * * *", "*/5 * * * *", "30 2 * * *", "0 9 * * 1-5", "15 */6 * * *", "*/10 * * * * *", "0 0 1 * *"]
ZONES = [None, "UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "+05:30"]

patterns = st.one_of(
    st.builds(RepeatPattern.cron, st.sampled_from(CRONS), st.sampled_from(ZONES)),
    st.builds(RepeatPattern.every, st.integers(1_000, 90_000_000)),
)
policies = st.one_of(
    st.just(MissedFiresPolicy.skip()),
    st.just(MissedFiresPolicy.fire_once()),
    st.builds(MissedFiresPolicy.fire_all, st.integers(1, 9)),
)
gaps_ms = st.one_of(st.integers(1, 5_000), st.integers(1_000, 400_000), st.integers(3_600_000, 20 * 86_400_000))


@st.composite
def specs(draw: st.DrawFn) -> RepeatableSpec:
    start_ms = draw(st.none() | st.integers(SPRING_2027 - 86_400_000, SPRING_2027 + 3 * 86_400_000))
    end_ms = draw(st.none() | st.integers(SPRING_2027 + 4 * 86_400_000, SPRING_2027 + 40 * 86_400_000))
    return RepeatableSpec(
        "report",
        draw(patterns),
        None,
        limit=draw(st.none() | st.integers(1, 60)),
        start_after_ms=start_ms,
        end_before_ms=end_ms,
        missed_fires=draw(policies),
    )


@pytest.fixture(autouse=True)
def a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has dropped, the next test knows nothing of."""
    monkeypatch.setattr(fires._Dropped, "_jumps", {})


def at(ms: int) -> Any:
    return instance(EPOCH + timedelta(milliseconds=ms))


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class Airflow:
    """What the DAG processor and the scheduler do with a timetable, without the database."""

    def __init__(self, timetable: RepeatableTimetable, start_ms: int, catchup: bool, end_ms: int | None = None) -> None:
        # Through the serialized form, as the scheduler gets it.
        self.timetable: Any = RepeatableTimetable.deserialize(timetable.serialize())
        self.restriction = TimeRestriction(at(start_ms), None if end_ms is None else at(end_ms), catchup)
        self.last: Any = None
        self.model: Any = DagModel(dag_id="d")
        self.session = Session()
        self.session.add(self.model)
        self.runs: list[int] = []
        self.dropped = 0

    def parse(self) -> None:
        info = self.timetable.next_dagrun_info(last_automated_data_interval=self.last, restriction=self.restriction)
        self.model.next_dagrun = info and info.logical_date
        self.model.next_dagrun_data_interval = info and info.data_interval
        self.model.next_dagrun_create_after = info and info.run_after

    def schedule(self, now_ms: int) -> None:
        while self.model.next_dagrun_create_after and self.model.next_dagrun_create_after <= at(now_ms):
            try:
                info = self.timetable.next_run_info_from_dag_model(dag_model=self.model)
            except MissedFireError:
                self.dropped += 1
                continue
            assert info.logical_date == info.run_after, "a run's logical date is its fire"
            self.runs.append(ms(info.run_after))
            self.last = info.data_interval
            self.parse()


def engine_fires(spec: RepeatableSpec, start_ms: int, ticks: list[int]) -> list[int]:
    try:
        next_ms: int | None = first_fire_ms(spec, start_ms)
    except ConfigError:
        return []
    fires: list[int] = []
    fired = 0
    for tick_ms in ticks:
        if next_ms is None:
            break
        plan = plan_fires(spec, next_ms, fired, tick_ms)
        fires += plan.fires
        next_ms, fired = plan.next_fire_ms, plan.fired
    return fires


needs_second_look = pytest.mark.skipif(
    not hasattr(Timetable, "next_run_info_from_dag_model"),
    reason="before 3.2, Airflow makes the run that was planned before an outage without asking",
)


@needs_second_look
@settings(max_examples=400, deadline=None)
@given(
    spec=specs(),
    start_ms=st.integers(SPRING_2027, SPRING_2027 + 86_400_000),
    gaps=st.lists(st.tuples(gaps_ms, st.booleans()), min_size=1, max_size=25),
    catchup=st.booleans(),
    lasts_ms=st.none() | st.integers(0, 3_600_000) | st.integers(3_600_000, 40 * 86_400_000),
)
def test_runs_are_the_engines_fires(
    spec: RepeatableSpec, start_ms: int, gaps: list[tuple[int, bool]], catchup: bool, lasts_ms: int | None
) -> None:
    end_ms = None if lasts_ms is None else start_ms + lasts_ms
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fires._Dropped, "_jumps", {})  # a process of its own
        now_ms = start_ms
        patch.setattr(repeatable, "_now_ms", lambda: now_ms)
        timetable = RepeatableTimetable(spec)
        timetable.validate()
        airflow = Airflow(timetable, start_ms, catchup, end_ms)
        airflow.parse()
        ticks = []
        for gap_ms, parsed in gaps:
            now_ms += gap_ms
            ticks.append(now_ms)
            if parsed:
                airflow.parse()
            airflow.schedule(now_ms)
        expected = engine_fires(spec, start_ms, ticks)
        assert airflow.runs == [fire for fire in expected if end_ms is None or fire <= end_ms]


HOUR_MS = 3_600_000


@needs_second_look
def test_a_dropped_fire_is_one_line_of_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start_ms = SPRING_2027 // HOUR_MS * HOUR_MS
    airflow = Airflow(RepeatableTimetable(RepeatableSpec("h", RepeatPattern.cron("0 * * * *"), None)), start_ms, False)
    monkeypatch.setattr(repeatable, "_now_ms", lambda: start_ms)
    airflow.parse()
    monkeypatch.setattr(repeatable, "_now_ms", lambda: start_ms + 5 * HOUR_MS + 1)
    with pytest.raises(MissedFireError, match="nothing has failed"):
        airflow.timetable.next_run_info_from_dag_model(dag_model=airflow.model)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    said = record.getMessage()
    assert f"DAG d: the fire at {at(start_ms + HOUR_MS)} was missed, and missed_fires=skip drops it" in said
    assert f"the next run is at {at(start_ms + 6 * HOUR_MS)}" in said


@needs_second_look
@pytest.mark.parametrize("catchup", [True, False])
@pytest.mark.parametrize("policy", [MissedFiresPolicy.skip(), MissedFiresPolicy.fire_once()])
class TestAnEndDate:
    """A DAG ends, whatever was missed."""

    START_MS = SPRING_2027 // HOUR_MS * HOUR_MS

    def airflow(self, policy: MissedFiresPolicy, catchup: bool) -> Airflow:
        spec = RepeatableSpec("h", RepeatPattern.cron("0 * * * *"), None, missed_fires=policy)
        return Airflow(RepeatableTimetable(spec), self.START_MS, catchup, self.START_MS + 10 * HOUR_MS)

    def hours(self, airflow: Airflow) -> list[int]:
        return [(run - self.START_MS) // HOUR_MS for run in airflow.runs]

    def test_that_is_past_at_the_first_parse(
        self, policy: MissedFiresPolicy, catchup: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        airflow = self.airflow(policy, catchup)
        for now_ms in range(self.START_MS + 50 * HOUR_MS, self.START_MS + 53 * HOUR_MS, 600_000):
            monkeypatch.setattr(repeatable, "_now_ms", lambda now_ms=now_ms: now_ms)
            airflow.parse()
            airflow.schedule(now_ms)
        assert self.hours(airflow) == ([] if policy.kind == "skip" else [1])
        assert airflow.dropped == 0

    def test_within_an_outage_after_which_nobody_parses(
        self, policy: MissedFiresPolicy, catchup: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        airflow = self.airflow(policy, catchup)
        monkeypatch.setattr(repeatable, "_now_ms", lambda: self.START_MS)
        airflow.parse()
        for hour in (1, 2, 13, 14, 15):
            now_ms = self.START_MS + hour * HOUR_MS + 1_000
            monkeypatch.setattr(repeatable, "_now_ms", lambda now_ms=now_ms: now_ms)
            airflow.schedule(now_ms)
        assert self.hours(airflow) == ([1, 2] if policy.kind == "skip" else [1, 2, 3])
        assert airflow.model.next_dagrun_create_after is None


@needs_second_look
def test_whoever_only_looks_is_told_the_next_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    """`airflow dags next-execution` after an outage."""
    start_ms = SPRING_2027 // HOUR_MS * HOUR_MS
    airflow = Airflow(RepeatableTimetable(RepeatableSpec("h", RepeatPattern.cron("0 * * * *"), None)), start_ms, False)
    monkeypatch.setattr(repeatable, "_now_ms", lambda: start_ms)
    airflow.parse()
    airflow.session.expunge_all()
    planned = airflow.model.next_dagrun_create_after
    monkeypatch.setattr(repeatable, "_now_ms", lambda: start_ms + 5 * HOUR_MS + 1_000)
    info = airflow.timetable.next_run_info_from_dag_model(dag_model=airflow.model)
    assert ms(info.run_after) == start_ms + 6 * HOUR_MS
    assert airflow.model.next_dagrun_create_after == planned


@given(
    spec=specs(),
    start_ms=st.integers(SPRING_2027, SPRING_2027 + 86_400_000),
    since_ms=st.none() | st.integers(SPRING_2027 - 86_400_000, SPRING_2027 + 2 * 86_400_000),
    lasts_ms=st.none() | st.integers(5 * 86_400_000, 40 * 86_400_000),
)
def test_the_spec_of_a_dag_fires_as_the_dag_does(
    spec: RepeatableSpec, start_ms: int, since_ms: int | None, lasts_ms: int | None
) -> None:
    spec = replace(spec, missed_fires=MissedFiresPolicy.skip())
    end = None if lasts_ms is None else at(start_ms + lasts_ms)
    timetable = RepeatableTimetable(spec, since_ms)
    dag = DAG("d", schedule=timetable, start_date=at(start_ms), end_date=end)  # type: ignore[arg-type]
    stored_ms = SPRING_2027 - 3 * 86_400_000
    runs: list[int] = []
    last: Any = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeatable, "_now_ms", lambda: stored_ms)
        restriction = TimeRestriction(at(start_ms), None if end is None else end, False)
        while len(runs) < 5 and (
            info := timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        ):
            runs.append(ms(info.run_after))
            last = info.data_interval
    fires: list[int] = []
    stored = spec_from_dag(dag)
    next_ms: int | None = _first_or_none(stored, stored_ms)
    while next_ms is not None and len(fires) < 5:
        plan = plan_fires(stored, next_ms, len(fires), next_ms)
        fires += plan.fires
        next_ms = plan.next_fire_ms
    assert runs == fires


def _first_or_none(spec: RepeatableSpec, now_ms: int) -> int | None:
    try:
        return first_fire_ms(spec, now_ms)
    except ConfigError:
        return None


@given(spec=specs(), start_ms=st.integers(0, 2**42), length_us=st.integers(0, 2**50), catchup=st.booleans())
def test_a_foreign_interval_never_raises(spec: RepeatableSpec, start_ms: int, length_us: int, catchup: bool) -> None:
    start = instance(EPOCH + timedelta(milliseconds=start_ms))
    interval = (start, start + timedelta(microseconds=length_us))
    timetable = RepeatableTimetable(spec)
    for earliest, latest in [(None, None), (None, start), (start, None), (start, interval[1])]:
        info = timetable.next_dagrun_info(
            last_automated_data_interval=interval,  # type: ignore[arg-type]
            restriction=TimeRestriction(earliest, latest, catchup),
        )
        assert info is None or info.run_after > start
