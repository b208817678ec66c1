"""Repeatable specs as DAG schedules, and DAG schedules as repeatable specs."""

from __future__ import annotations

from calendar import timegm
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from pendulum import DateTime, instance

from chasqui_engine import ConfigError, MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_provider.timetables.fires import BEFORE_ALL_MS, Fire, Schedule

if TYPE_CHECKING:
    from airflow.sdk import DAG

_LATE_MS = 60_000
"""Without a start, a fire so long ago is still the first: else one that came up between two parses would be lost."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _now_ms() -> int:
    return int(time() * 1000)


class MissedFireError(Exception):
    """The run that was planned is not made: by now its fire was missed, and the policy drops it."""


class RepeatableTimetable(Timetable):
    """A repeatable spec as a DAG's `schedule`: its runs are the engine's fires, whatever `catchup` says.

    What the upsert is to the engine, the DAG's `start_date` is here: `every` counts from it, and the first fire comes
    after it. `since_ms` takes its place where the DAG has none, or where the row of fires began elsewhere.
    """

    def __init__(self, spec: RepeatableSpec, since_ms: int | None = None) -> None:
        self.spec = spec
        self.since_ms = since_ms
        self._schedule = Schedule(spec)
        self.description = f"Chasqui: {spec.resolved_key()}"

    def serialize(self) -> dict[str, Any]:
        """The spec as JSON; its payload has no part in when it fires."""
        spec = self.spec
        return {
            "job_name": spec.job_name,
            "pattern": spec.pattern.to_dict(),
            "key": spec.key,
            "limit": spec.limit,
            "start_after_ms": spec.start_after_ms,
            "end_before_ms": spec.end_before_ms,
            "missed_fires": spec.missed_fires.to_dict(),
            "since_ms": self.since_ms,
        }

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        """The timetable that `serialize` described."""
        spec = RepeatableSpec(
            data["job_name"],
            RepeatPattern(**data["pattern"]),
            None,
            key=data["key"],
            limit=data["limit"],
            start_after_ms=data["start_after_ms"],
            end_before_ms=data["end_before_ms"],
            missed_fires=MissedFiresPolicy(**data["missed_fires"]),
        )
        return cls(spec, data["since_ms"])

    def validate(self) -> None:
        """Refuses a spec whose state does not fit into a data interval."""
        try:
            self._schedule.check()
        except ConfigError as err:
            raise AirflowTimetableInvalid(str(err)) from err

    @property
    def summary(self) -> str:
        """What the list of DAGs shows."""
        pattern = self.spec.pattern
        if pattern.interval_ms is not None:
            return f"every {timedelta(milliseconds=pattern.interval_ms)}"
        return f"{pattern.expression} {pattern.tz or 'UTC'}"

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """A run that somebody started is no fire: it stands for its moment."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The next run. Never raises: operators ask it as well."""
        now_ms = _now_ms()
        if restriction.catchup and restriction.latest is not None and _ms(restriction.latest) <= now_ms:
            # A range in the past: somebody fills it up, and every fire in it counts.
            now_ms = BEFORE_ALL_MS
        if last_automated_data_interval is None:
            fire = self._first(restriction, now_ms)
        else:
            start, end = last_automated_data_interval
            fire = self._schedule.after(self._schedule.read(_us(start), _us(end)), now_ms)
        if fire is None or (restriction.latest is not None and fire.at_ms > _ms(restriction.latest)):
            return None
        return self._info(fire)

    def next_run_info_from_dag_model(self, *, dag_model: Any) -> DagRunInfo | None:
        """What becomes, now, of the run that was planned earlier (Airflow 3.2 and later ask before they make a run).

        After an outage the plan is old: the policy decides again. If it drops the fire, the DAG is told its next one
        and this run is not made.
        """
        planned = super().next_run_info_from_dag_model(dag_model=dag_model)
        if planned is None or planned.data_interval is None:
            return planned
        was = self._schedule.read(_us(planned.data_interval.start), _us(planned.data_interval.end))
        if was.to_make_up or was.resume_ms is not None:
            return planned
        fire = self._schedule.next_due(was.at_ms, max(0, was.fired - 1), _now_ms())
        if fire is not None and fire.at_ms == was.at_ms:
            return self._info(fire)
        following = None if fire is None else self._info(fire)
        dag_model.next_dagrun = following and following.logical_date
        dag_model.next_dagrun_data_interval = following and following.data_interval
        dag_model.next_dagrun_create_after = following and following.run_after
        after = following and following.run_after
        raise MissedFireError(f"the fire at {planned.run_after} was missed; the next one is at {after}")

    def _first(self, restriction: TimeRestriction, now_ms: int) -> Fire | None:
        earliest_ms = 0 if restriction.earliest is None else _ms(restriction.earliest)
        since_ms = self.since_ms
        if since_ms is None:
            since_ms = earliest_ms
            if restriction.earliest is None:
                since_ms = self._late_start_ms(_now_ms() - _LATE_MS)
        return self._schedule.first(since_ms, earliest_ms, now_ms)

    def _late_start_ms(self, at_ms: int) -> int:
        """Where `every` begins without a start: at whole intervals since the epoch, the same after every parse."""
        interval = self.spec.pattern.interval_ms
        return at_ms if interval is None else at_ms // interval * interval

    def _info(self, fire: Fire) -> DagRunInfo:
        at = _datetime(fire.at_ms * 1000)
        return DagRunInfo(run_after=at, data_interval=DataInterval(at, _datetime(self._schedule.end_us(fire))))


def schedule_from_spec(spec: RepeatableSpec, since_ms: int | None = None) -> RepeatableTimetable:
    """A spec as a DAG's `schedule`."""
    return RepeatableTimetable(spec, since_ms)


def spec_from_dag(dag: DAG, payload: Any = None) -> RepeatableSpec:
    """The spec that a DAG is scheduled by, to be stored in a queue: `producer.upsert_repeatable(spec_from_dag(dag))`.

    The DAG's bounds become the spec's: it fires after `start_date` and until `end_date`.
    """
    timetable: Any = dag.timetable
    if not isinstance(timetable, RepeatableTimetable):
        raise ConfigError(
            f"DAG {dag.dag_id!r} is scheduled by {type(timetable).__name__}, not by a RepeatableTimetable"
        )
    spec = timetable.spec
    start_ms = spec.start_after_ms or _optional_ms(dag.start_date) or timetable.since_ms
    end_ms = spec.end_before_ms or _optional_ms(dag.end_date)
    return replace(spec, payload=payload, start_after_ms=start_ms, end_before_ms=end_ms)


def _optional_ms(moment: datetime | None) -> int | None:
    return None if moment is None else _ms(moment)


def _ms(moment: datetime) -> int:
    return _us(moment) // 1000


def _us(moment: datetime) -> int:
    return timegm(moment.utctimetuple()) * 1_000_000 + moment.microsecond


def _datetime(us: int) -> DateTime:
    return instance(_EPOCH + timedelta(microseconds=us))
