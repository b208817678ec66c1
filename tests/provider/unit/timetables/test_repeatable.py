"""The timetable as Airflow uses it: serialized, asked by operators, filled up, and made from a queue's specs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import AirflowTimetableInvalid
from airflow.sdk import DAG
from airflow.timetables.base import DataInterval, TimeRestriction
from pendulum import instance

from chasqui_engine import ConfigError, MissedFiresPolicy, RepeatableMeta, RepeatableSpec, RepeatPattern
from chasqui_engine.schedule import plan_fires
from chasqui_provider.timetables import repeatable, snapshot
from chasqui_provider.timetables.repeatable import RepeatableTimetable, schedule_from_spec, spec_from_dag
from chasqui_provider.timetables.snapshot import dags_from_queue, snapshot_of, snapshot_variable

SerializedDAG: Any
try:
    from airflow.serialization.definitions.dag import SerializedDAG
except ImportError:  # before 3.2
    from airflow.serialization.serialized_objects import SerializedDAG

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


def test_a_limit_that_takes_too_long_to_count_is_refused() -> None:
    cron, every = RepeatPattern.cron("* * * * *"), RepeatPattern.every(60_000)
    with pytest.raises(AirflowTimetableInvalid, match=r"limit must be at most 10000.*got 10001: set end_before_ms"):
        RepeatableTimetable(RepeatableSpec("e", cron, None, limit=10_001)).validate()
    RepeatableTimetable(RepeatableSpec("e", cron, None, limit=10_000)).validate()
    RepeatableTimetable(RepeatableSpec("e", every, None, limit=400_000)).validate()


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


@pytest.mark.parametrize("until_h", [5, 24 * 30])
def test_a_range_is_filled_up_whatever_the_policy(until_h: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at(START + timedelta(days=9), monkeypatch)
    dag = SimpleNamespace(timetable=RepeatableTimetable(HOURLY), dag_id="d")
    infos = list(SerializedDAG.iter_dagrun_infos_between(dag, START, START + timedelta(hours=until_h)))
    assert [info.run_after for info in infos] == [START + timedelta(hours=n) for n in range(1, until_h + 1)]
    assert all(info.data_interval.end == info.run_after for info in infos)


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


@pytest.mark.parametrize(
    "spec",
    [
        RepeatableSpec("e", RepeatPattern.every(3 * 10**14), None),
        RepeatableSpec("e", RepeatPattern.every(86_400_000 * 400), None, start_after_ms=253_402_300_799_000),
    ],
)
def test_what_fires_after_the_last_date_is_no_error(spec: RepeatableSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    at(START, monkeypatch)
    restriction = TimeRestriction(instance(START), None, False)
    timetable = RepeatableTimetable(spec)
    assert timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction) is None


def test_only_a_spec_makes_a_timetable() -> None:
    with pytest.raises(ConfigError, match=r"spec must be a RepeatableSpec.*RepeatPattern\.cron"):
        RepeatableTimetable("0 * * * *")  # type: ignore[arg-type]


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
        both = spec_from_dag(dag_with(FULL, end_date=START + timedelta(days=1)))
        assert (both.start_after_ms, both.end_before_ms) == (start_ms, start_ms + 86_400_000)
        narrow = replace(FULL, start_after_ms=start_ms + 5, end_before_ms=start_ms + 9)
        both = spec_from_dag(dag_with(narrow, end_date=START + timedelta(days=1)))
        assert (both.start_after_ms, both.end_before_ms) == (start_ms + 5, start_ms + 9)
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
        first, second = dags
        assert first.startswith("q__a_x_")
        assert second == "q__b"
        assert dags[first].task_ids == ["a"]
        assert [spec.key for spec in seen] == ["a::x", "b"]
        at(START, monkeypatch)
        timetable: Any = dags[first].timetable
        info = timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(instance(START), None, False)
        )
        row = plan_fires(seen[0], now_ms + 5_123 - 7_000, 0, now_ms)
        assert int(info.run_after.timestamp() * 1000) == row.next_fire_ms == now_ms + 5_123

    def test_specs_that_look_alike_have_a_dag_each(self, monkeypatch: pytest.MonkeyPatch) -> None:
        patterns = [RepeatPattern.cron("*/5 * * * *"), RepeatPattern.cron("5 * * * *")]
        keys = [RepeatableSpec("job", pattern, None).resolved_key() for pattern in patterns]
        kept = snapshot_of(RepeatableMeta(key, "job", pattern, 0) for key, pattern in zip(keys, patterns, strict=True))
        monkeypatch.setattr(snapshot.Variable, "get", lambda _, **__: json.loads(json.dumps(kept)))
        dags = dags_from_queue("c", "q", start_date=START, tasks=lambda _: None)
        assert sorted(dag.timetable.summary for dag in dags.values()) == ["*/5 * * * * UTC", "5 * * * * UTC"]
        assert list(dags) == list(dags_from_queue("c", "q", start_date=START, tasks=lambda _: None))

    def test_a_row_that_began_after_the_specs_start_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now_ms = int(START.timestamp() * 1000)
        meta = RepeatableMeta("e", "e", RepeatPattern.every(7_000), now_ms + 5_123, start_after_ms=now_ms - 99_999)
        kept = json.loads(json.dumps(snapshot_of([meta])))
        monkeypatch.setattr(snapshot.Variable, "get", lambda _, **__: kept)
        at(START, monkeypatch)
        timetable: Any = dags_from_queue("c", "q", start_date=START, tasks=lambda _: None)["q__e"].timetable
        info = timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(instance(START), None, False)
        )
        assert int(info.run_after.timestamp() * 1000) == now_ms + 5_123

    def test_no_snapshot_no_dags(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshot.Variable, "get", lambda _, **options: options["default"])
        assert dags_from_queue("c", "q", start_date=START, tasks=print) == {}
