"""Which fires become runs of a DAG: over random specs, outages and times of parsing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.timetables.base import DataInterval, TimeRestriction
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import instance

from chasqui_engine import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine.schedule import first_fire_ms, plan_fires
from chasqui_engine.values.errors import ConfigError
from chasqui_provider.timetables import repeatable
from chasqui_provider.timetables.repeatable import RepeatableTimetable, spec_from_dag

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

    def __init__(
        self, spec: RepeatableSpec, start_ms: int, *, catchup: bool = False, end_ms: int | None = None
    ) -> None:
        timetable = RepeatableTimetable(spec)
        timetable.validate()
        # Through the serialized form, as the scheduler gets it.
        self.timetable: Any = RepeatableTimetable.deserialize(timetable.serialize())
        self.restriction = TimeRestriction(at(start_ms), None if end_ms is None else at(end_ms), catchup)
        self.now_ms = start_ms
        self.planned: Any = None
        self.last: Any = None
        self.runs: list[int] = []

    def parse(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repeatable, "_now_ms", lambda: self.now_ms)
            self.planned = self.timetable.next_dagrun_info(
                last_automated_data_interval=self.last, restriction=self.restriction
            )

    def schedule(self, at_most: int = 200) -> None:
        """Makes the runs that are due."""
        while self.planned and ms(self.planned.run_after) <= self.now_ms and len(self.runs) < at_most:
            self.runs.append(ms(self.planned.run_after))
            self.last = self.planned.data_interval
            self.parse()


def engine_fires(spec: RepeatableSpec, start_ms: int, ticks: list[int]) -> list[int]:
    next_ms = _first_or_none(spec, start_ms)
    fires: list[int] = []
    fired = 0
    for tick_ms in ticks:
        if next_ms is None:
            break
        plan = plan_fires(spec, next_ms, fired, tick_ms)
        fires += plan.fires
        next_ms, fired = plan.next_fire_ms, plan.fired
    return fires


starts_ms = st.integers(SPRING_2027, SPRING_2027 + 86_400_000)


@settings(max_examples=200, deadline=None)
@given(spec=specs(), start_ms=starts_ms, catchup=st.booleans(), late_ms=st.integers(0, 999), parsed=st.booleans())
def test_without_an_outage_runs_are_the_engines_fires(
    spec: RepeatableSpec, start_ms: int, catchup: bool, late_ms: int, parsed: bool
) -> None:
    airflow = Airflow(spec, start_ms, catchup=catchup)
    airflow.parse()
    ticks = []
    while airflow.planned and len(airflow.runs) < 70:
        airflow.now_ms = ms(airflow.planned.run_after) + late_ms
        ticks.append(airflow.now_ms)
        if parsed:
            airflow.parse()
        airflow.schedule()
    assert airflow.runs == engine_fires(spec, start_ms, ticks)


@settings(max_examples=200, deadline=None)
@given(
    spec=specs(),
    start_ms=starts_ms,
    gaps=st.lists(st.tuples(gaps_ms, st.booleans()), min_size=1, max_size=25),
    lasts_ms=st.none() | st.integers(0, 40 * 86_400_000),
)
def test_whatever_was_missed_runs_are_fires_of_the_row_and_each_is_made_once(
    spec: RepeatableSpec, start_ms: int, gaps: list[tuple[int, bool]], lasts_ms: int | None
) -> None:
    end_ms = None if lasts_ms is None else start_ms + lasts_ms
    airflow = Airflow(spec, start_ms, end_ms=end_ms)
    airflow.parse()
    for gap_ms, parsed in gaps:
        airflow.now_ms += gap_ms
        if parsed:
            airflow.parse()
        airflow.schedule()
    every_fire = Airflow(spec, start_ms, catchup=True, end_ms=end_ms)
    every_fire.now_ms = max([airflow.now_ms, *airflow.runs])
    every_fire.parse()
    every_fire.schedule(at_most=300)
    if len(every_fire.runs) < 300:
        assert set(airflow.runs) <= set(every_fire.runs)
    assert airflow.runs == sorted(set(airflow.runs))


HOUR_MS = 3_600_000
START_MS = SPRING_2027 // HOUR_MS * HOUR_MS


def hourly(policy: MissedFiresPolicy, **options: Any) -> RepeatableSpec:
    return RepeatableSpec("h", RepeatPattern.cron("0 * * * *"), None, missed_fires=policy, **options)


def hours(airflow: Airflow) -> list[int]:
    return [(run - START_MS) // HOUR_MS for run in airflow.runs]


def play(airflow: Airflow, *at_hours: float, parsed: bool) -> list[int]:
    """The hours of the runs, when the scheduler works at these hours only."""
    airflow.parse()
    for hour in at_hours:
        airflow.now_ms = START_MS + int(hour * HOUR_MS) + 1_000
        if parsed:
            airflow.parse()
        airflow.schedule()
    return hours(airflow)


# The third fire was planned before the outage.
@pytest.mark.parametrize(
    ("policy", "parsed", "runs"),
    [
        (MissedFiresPolicy.skip(), False, [1, 2, 3, 9, 10]),
        (MissedFiresPolicy.skip(), True, [1, 2, 9, 10]),
        (MissedFiresPolicy.fire_once(), False, [1, 2, 3, 8, 9, 10]),
        (MissedFiresPolicy.fire_once(), True, [1, 2, 8, 9, 10]),
        (MissedFiresPolicy.fire_all(3), False, [1, 2, 3, 6, 7, 8, 9, 10]),
        (MissedFiresPolicy.fire_all(3), True, [1, 2, 6, 7, 8, 9, 10]),
    ],
)
@pytest.mark.parametrize("every", [False, True])
def test_after_an_outage_the_policy_decides(
    policy: MissedFiresPolicy, parsed: bool, runs: list[int], every: bool
) -> None:
    spec = hourly(policy)
    if every:
        spec = replace(spec, pattern=RepeatPattern.every(HOUR_MS))
    assert play(Airflow(spec, START_MS), 1, 2, 8.5, 9, 10, parsed=parsed) == runs


def test_with_catchup_every_fire_is_made() -> None:
    airflow = Airflow(hourly(MissedFiresPolicy.skip()), START_MS, catchup=True)
    assert play(airflow, 1, 2, 8.5, 9, parsed=True) == list(range(1, 10))


@pytest.mark.parametrize("parsed", [True, False])
def test_a_fire_that_just_came_up_after_an_outage_is_not_missed(parsed: bool) -> None:
    airflow = Airflow(hourly(MissedFiresPolicy.skip()), START_MS)
    assert play(airflow, 1, 8, 9, parsed=parsed) == ([1, 8, 9] if parsed else [1, 2, 8, 9])


@pytest.mark.parametrize(
    ("policy", "runs"),
    [
        (MissedFiresPolicy.skip(), []),
        (MissedFiresPolicy.fire_once(), [10]),
        (MissedFiresPolicy.fire_all(2), [9, 10]),
    ],
)
def test_no_run_comes_after_the_end_of_the_dag(policy: MissedFiresPolicy, runs: list[int]) -> None:
    def airflow() -> Airflow:
        return Airflow(hourly(policy), START_MS, end_ms=START_MS + 10 * HOUR_MS)

    assert play(airflow(), 50, 51, parsed=True) == runs
    within_the_outage = airflow()
    assert play(within_the_outage, 1, 2, 13, 14, parsed=False) == [1, 2, 3, *runs]
    assert within_the_outage.planned is None


@pytest.mark.parametrize("policy", [MissedFiresPolicy.skip(), MissedFiresPolicy.fire_all(9)])
def test_a_limit_counts_from_the_start_what_was_missed_too(policy: MissedFiresPolicy) -> None:
    airflow = Airflow(hourly(policy, limit=5), START_MS)
    assert play(airflow, 1, 4, 4.5, 5, 6, 7, parsed=True)[-1] == 5
    assert airflow.planned is None


def test_a_limit_needs_a_start(caplog: pytest.LogCaptureFixture) -> None:
    def next_run(spec: RepeatableSpec) -> Any:
        timetable = RepeatableTimetable(spec)
        return timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(None, None, False)
        )

    assert next_run(hourly(MissedFiresPolicy.skip(), limit=3, start_after_ms=2**42)) is not None
    assert next_run(hourly(MissedFiresPolicy.skip(), limit=3)) is None
    assert "no run is created: limit counts from a start, and the DAG has none" in caplog.text


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
    interval = DataInterval(start, start + timedelta(microseconds=length_us))
    timetable = RepeatableTimetable(spec)
    for earliest, latest in [(None, None), (None, start), (start, None), (start, interval.end)]:
        info = timetable.next_dagrun_info(
            last_automated_data_interval=interval,
            restriction=TimeRestriction(earliest, latest, catchup),
        )
        assert info is None or info.run_after > start
