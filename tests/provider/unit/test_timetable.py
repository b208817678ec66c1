"""The timetable as Airflow uses it: serialized, asked by operators, filled up, and made from a queue's specs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.exceptions import AirflowTimetableInvalid
from airflow.sdk import DAG
from airflow.timetables.base import DataInterval, TimeRestriction
from pendulum import instance

from chasqui_engine import (
    ConfigError,
    MissedFiresPolicy,
    RepeatableMeta,
    RepeatableSpec,
    RepeatPattern,
    plan_fires,
)
from chasqui_provider.timetables import repeatable, snapshot
from chasqui_provider.timetables.repeatable import RepeatableTimetable, schedule_from_spec, spec_from_dag
from chasqui_provider.timetables.snapshot import dags_from_queue, snapshot_of, snapshot_variable

START = datetime(2027, 3, 1, tzinfo=UTC)
HOURLY = RepeatableSpec("report", RepeatPattern.cron("0 * * * *"), {"n": 1})
FULL = RepeatableSpec(
    "report",
    RepeatPattern.cron("30 2 * * *", tz="America/New_York"),
    None,
    key="mine",
    limit=5,
    start_after_ms=1_000,
    end_before_ms=9_999_999_999_999,
    missed_fires=MissedFiresPolicy.fire_all(3),
)


def dag_with(spec: RepeatableSpec, **options: Any) -> DAG:
    return DAG("d", schedule=schedule_from_spec(spec), **{"start_date": START, **options})  # type: ignore[arg-type]


def at(moment: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeatable, "_now_ms", lambda: int(moment.timestamp() * 1000))


@pytest.mark.parametrize("spec", [HOURLY, FULL, RepeatableSpec("e", RepeatPattern.every(5), None)])
def test_survives_serialization(spec: RepeatableSpec) -> None:
    data = json.loads(json.dumps(RepeatableTimetable(spec, since_ms=7).serialize()))
    again: Any = RepeatableTimetable.deserialize(data)
    assert again.serialize() == data
    assert again.since_ms == 7
    assert (again.spec.pattern, again.spec.limit, again.spec.key) == (spec.pattern, spec.limit, spec.key)
    assert again.spec.missed_fires == spec.missed_fires


def test_what_people_see() -> None:
    assert RepeatableTimetable(HOURLY).summary == "0 * * * * UTC"
    assert RepeatableTimetable(RepeatableSpec("e", RepeatPattern.every(90_000), None)).summary == "every 0:01:30"
    assert "mine" in RepeatableTimetable(FULL).description


def test_a_count_that_does_not_fit_is_refused() -> None:
    policy = MissedFiresPolicy.fire_all(1000)
    spec = RepeatableSpec("e", RepeatPattern.cron("* * * * *"), None, limit=1_000, missed_fires=policy)
    with pytest.raises(AirflowTimetableInvalid, match="limit"):
        RepeatableTimetable(spec).validate()
    RepeatableTimetable(RepeatableSpec("e", RepeatPattern.cron("* * * * *"), None, limit=900_000)).validate()


def test_a_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    at(START, monkeypatch)
    timetable = RepeatableTimetable(RepeatableSpec("e", RepeatPattern.every(60_000), None, limit=3))
    restriction = TimeRestriction(instance(START), None, False)
    last, runs = None, []
    while info := timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction):
        runs.append(info.run_after)
        last = info.data_interval
        assert len(runs) < 10
    assert runs == [START + timedelta(minutes=n) for n in (1, 2, 3)]


def test_a_range_in_the_past_is_filled_up_whatever_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    at(START + timedelta(days=9), monkeypatch)
    restriction = TimeRestriction(instance(START), instance(START + timedelta(hours=5)), catchup=True)
    last, runs = None, []
    while info := RepeatableTimetable(HOURLY).next_dagrun_info(
        last_automated_data_interval=last, restriction=restriction
    ):
        runs.append(info.run_after)
        last = info.data_interval
    assert runs == [START + timedelta(hours=n) for n in range(1, 6)]


@pytest.mark.parametrize("late_s", [0, 20, 59])
def test_without_a_start_a_fire_between_two_parses_is_not_lost(late_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fire = START + timedelta(hours=1)
    at(fire + timedelta(seconds=late_s), monkeypatch)
    for pattern in (RepeatPattern.cron("0 * * * *"), RepeatPattern.every(3_600_000)):
        info = RepeatableTimetable(RepeatableSpec("e", pattern, None)).next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(None, None, False)
        )
        assert info is not None
        assert info.run_after == fire


def test_what_never_fires_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    at(START, monkeypatch)
    timetable = RepeatableTimetable(RepeatableSpec("e", RepeatPattern.cron("0 0 0 1 1 * 2000"), None))
    restriction = TimeRestriction(instance(START), None, False)
    assert timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction) is None


def test_latest_only_can_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    at(START + timedelta(minutes=70), monkeypatch)
    hour = DataInterval.exact(instance(START + timedelta(hours=1)))
    timetable = RepeatableTimetable(HOURLY)
    before = TimeRestriction(earliest=None, latest=hour.end - timedelta(microseconds=1), catchup=True)
    assert timetable.next_dagrun_info(last_automated_data_interval=hour, restriction=before) is None
    after = TimeRestriction(earliest=hour.end, latest=None, catchup=True)
    info = timetable.next_dagrun_info(last_automated_data_interval=hour, restriction=after)
    assert info is not None
    assert info.data_interval is not None
    assert info.data_interval.end == START + timedelta(hours=2)


def test_a_manual_run_stands_for_its_moment() -> None:
    moment = instance(START)
    assert RepeatableTimetable(HOURLY).infer_manual_data_interval(run_after=moment) == DataInterval.exact(moment)


class TestBothWays:
    def test_the_spec_of_a_dag(self) -> None:
        spec = spec_from_dag(dag_with(HOURLY, end_date=START + timedelta(days=1)), payload={"n": 2})
        start_ms = int(START.timestamp() * 1000)
        assert (spec.pattern, spec.payload) == (HOURLY.pattern, {"n": 2})
        assert (spec.start_after_ms, spec.end_before_ms) == (start_ms, start_ms + 86_400_000)
        assert spec_from_dag(dag_with(FULL)).start_after_ms == 1_000
        with pytest.raises(ConfigError, match="RepeatableTimetable"):
            spec_from_dag(DAG("other", schedule="@daily", start_date=START))

    def test_dags_from_a_snapshot(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from airflow.providers.standard.operators.empty import EmptyOperator

        now_ms = int(START.timestamp() * 1000)
        every = RepeatPattern.every(7_000)
        metas = [
            RepeatableMeta("a::x", "a", every, now_ms + 5_123, missed_fires=MissedFiresPolicy.fire_once()),
            RepeatableMeta("b", "b", RepeatPattern.cron("0 9 * * *"), now_ms + 9_000, limit=2),
        ]
        kept = json.loads(json.dumps(snapshot_of(metas)))
        asked: list[str] = []
        monkeypatch.setattr(
            snapshot.Variable,
            "get",
            lambda name, **_: asked.append(name) or kept,  # type: ignore[func-returns-value]
        )
        seen: list[RepeatableSpec] = []

        def tasks(spec: RepeatableSpec) -> None:
            seen.append(spec)
            EmptyOperator(task_id=spec.job_name)

        dags = dags_from_queue("c", "q", start_date=START, tasks=tasks, tags=["made"])
        assert asked == [snapshot_variable("q", "c")]
        assert sorted(dags) == ["q__a_x", "q__b"]
        assert dags["q__a_x"].task_ids == ["a"]
        assert [spec.key for spec in seen] == ["a::x", "b"]
        at(START, monkeypatch)
        timetable: Any = dags["q__a_x"].timetable
        info = timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(instance(START), None, False)
        )
        row = plan_fires(seen[0], now_ms + 5_123 - 7_000, 0, now_ms)
        assert int(info.run_after.timestamp() * 1000) == row.next_fire_ms == now_ms + 5_123

    def test_no_snapshot_no_dags(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshot.Variable, "get", lambda _, **options: options["default"])
        assert dags_from_queue("c", "q", start_date=START, tasks=print) == {}
