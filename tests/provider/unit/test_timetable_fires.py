"""The runs of a DAG are exactly the engine's fires: over random specs, outages and times of parsing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.timetables.base import TimeRestriction, Timetable
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import instance

from chasqui_engine import MissedFiresPolicy, RepeatableSpec, RepeatPattern, first_fire_ms, plan_fires
from chasqui_engine.errors import ConfigError
from chasqui_provider.timetables import fires, repeatable
from chasqui_provider.timetables.repeatable import MissedFireError, RepeatableTimetable

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


def at(ms: int) -> Any:
    return instance(EPOCH + timedelta(milliseconds=ms))


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class Airflow:
    """What the DAG processor and the scheduler do with a timetable, without the database."""

    def __init__(self, timetable: RepeatableTimetable, start_ms: int, catchup: bool) -> None:
        # Through the serialized form, as the scheduler gets it.
        self.timetable: Any = RepeatableTimetable.deserialize(timetable.serialize())
        self.restriction = TimeRestriction(at(start_ms), None, catchup)
        self.last: Any = None
        self.model = SimpleNamespace(next_dagrun_partition_date=None, next_dagrun_partition_key=None)
        self.runs: list[int] = []

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


@pytest.mark.skipif(
    not hasattr(Timetable, "next_run_info_from_dag_model"),
    reason="before 3.2, Airflow makes the run that was planned before an outage without asking",
)
@settings(max_examples=400, deadline=None)
@given(
    spec=specs(),
    start_ms=st.integers(SPRING_2027, SPRING_2027 + 86_400_000),
    gaps=st.lists(st.tuples(gaps_ms, st.booleans()), min_size=1, max_size=25),
    catchup=st.booleans(),
)
def test_runs_are_the_engines_fires(
    spec: RepeatableSpec, start_ms: int, gaps: list[tuple[int, bool]], catchup: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fires._Dropped, "_jumps", {})  # a process of its own
        now_ms = start_ms
        patch.setattr(repeatable, "_now_ms", lambda: now_ms)
        timetable = RepeatableTimetable(spec)
        timetable.validate()
        airflow = Airflow(timetable, start_ms, catchup)
        airflow.parse()
        ticks = []
        for gap_ms, parsed in gaps:
            now_ms += gap_ms
            ticks.append(now_ms)
            if parsed:
                airflow.parse()
            airflow.schedule(now_ms)
        assert airflow.runs == engine_fires(spec, start_ms, ticks)


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
