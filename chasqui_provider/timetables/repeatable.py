"""Repeatable specs as DAG schedules, and DAG schedules as repeatable specs."""

from __future__ import annotations

import inspect
import logging
from calendar import timegm
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from pendulum import DateTime, instance
from sqlalchemy.orm import object_session

from chasqui_engine import ConfigError, MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_provider.timetables.fires import BEFORE_ALL_MS, Fire, Schedule

if TYPE_CHECKING:
    from airflow.sdk import DAG

_LATE_MS = 60_000
"""Without a start, a fire so long ago is still the first: else one that came up between two parses would be lost."""


_log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_FILLS_UP = "iter_dagrun_infos_between"
_CALLERS_LOOKED_AT = 4
_PLANS_ARE_LOOKED_AT_AGAIN = hasattr(Timetable, "next_run_info_from_dag_model")


def _now_ms() -> int:
    return int(time() * 1000)


def _is_filling_up() -> bool:
    """Whether a range is being filled up, as `airflow backfill create` does: then every fire in it counts.

    Airflow asks for that in the very words in which it asks for the runs of a DAG with `catchup` and an `end_date`.
    Only who asks tells the two apart.
    """
    frame = inspect.currentframe()
    for _ in range(_CALLERS_LOOKED_AT):
        frame = frame and frame.f_back
        if frame is not None and frame.f_code.co_name == _FILLS_UP:
            return True
    return False


class MissedFireError(Exception):
    """The run that was planned is not made: by now its fire was missed, and the policy drops it.

    The scheduler knows no other way to be told so, and logs every exception with its traceback.
    """


class RepeatableTimetable(Timetable):
    """A repeatable spec as a DAG's `schedule`: its runs are the engine's fires, whatever `catchup` says.

    What the upsert is to the engine, the DAG's `start_date` is here: `every` counts from it, and the first fire comes
    after it. `since_ms` takes its place where the DAG has none, or where the row of fires began elsewhere.
    """

    def __init__(self, spec: RepeatableSpec, since_ms: int | None = None) -> None:
        if not isinstance(spec, RepeatableSpec):
            raise ConfigError(
                f"spec must be a RepeatableSpec, such as RepeatableSpec('report', RepeatPattern.cron('0 9 * * *'), "
                f"None); got {spec!r}"
            )
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
        filling_up = _is_filling_up()
        now_ms = BEFORE_ALL_MS if filling_up else _now_ms()
        if last_automated_data_interval is None:
            fire = self._first(restriction, now_ms)
        else:
            start, end = last_automated_data_interval
            fire = self._schedule.after(self._schedule.read(_us(start), _us(end)), now_ms)
        until_ms = _optional_ms(restriction.latest)
        if fire is None or (until_ms is not None and fire.at_ms > until_ms):
            return None
        is_plan = _PLANS_ARE_LOOKED_AT_AGAIN and not filling_up
        return self._info(replace(fire, until_ms=until_ms) if is_plan else fire)

    def next_run_info_from_dag_model(self, *, dag_model: Any) -> DagRunInfo | None:
        """What becomes, now, of the run that was planned earlier (Airflow 3.2 and later ask before they make a run).

        After an outage the plan is old: the policy decides again. If it drops the fire, whoever only looks is told the
        next one. The scheduler would make a run of any answer: its DAG is told the next one, and this run is not made.
        """
        planned = super().next_run_info_from_dag_model(dag_model=dag_model)
        if planned is None or planned.data_interval is None:
            return planned
        was = self._schedule.read(_us(planned.data_interval.start), _us(planned.data_interval.end))
        if was.is_after_outage:
            return planned
        fire = self._schedule.next_due(was.at_ms, max(0, was.fired - 1), _now_ms())
        if fire is not None and fire.at_ms == was.at_ms:
            return self._info(fire)
        if fire is None or (was.until_ms is not None and fire.at_ms > was.until_ms):
            following = None
        else:
            following = self._info(replace(fire, until_ms=was.until_ms))
        if object_session(dag_model) is None:
            return following
        dag_model.next_dagrun = following and following.logical_date
        dag_model.next_dagrun_data_interval = following and following.data_interval
        dag_model.next_dagrun_create_after = following and following.run_after
        _log.warning(
            "DAG %s: the fire at %s was missed, and missed_fires=%s drops it; %s. Airflow reports this as "
            "'Failed creating DagRun'",
            dag_model.dag_id,
            planned.run_after,
            self.spec.missed_fires.kind,
            f"the next run is at {following.run_after}" if following else "no run comes after it",
        )
        raise MissedFireError("no run is made, as the DAG's missed_fires says; nothing has failed")

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

    def _info(self, fire: Fire) -> DagRunInfo | None:
        try:
            at, end = _datetime(fire.at_ms * 1000), _datetime(self._schedule.end_us(fire))
        except OverflowError:  # later than any date
            return None
        # Not made directly: versions of Airflow differ in which further fields it must be given.
        return DagRunInfo.exact(at)._replace(data_interval=DataInterval(at, end))


def schedule_from_spec(spec: RepeatableSpec, since_ms: int | None = None) -> RepeatableTimetable:
    """A spec as a DAG's `schedule`."""
    return RepeatableTimetable(spec, since_ms)


def spec_from_dag(dag: DAG, payload: Any = None) -> RepeatableSpec:
    """The spec that a DAG is scheduled by, to be stored in a queue: `producer.upsert_repeatable(spec_from_dag(dag))`.

    The bounds are those of both: it fires when the DAG has begun and the spec too, until the first of them ends. An
    `every` fires in the DAG's row if it is stored before the row begins; stored later, it counts from that moment.
    """
    timetable: Any = dag.timetable
    if not isinstance(timetable, RepeatableTimetable):
        raise ConfigError(
            f"DAG {dag.dag_id!r} is scheduled by {type(timetable).__name__}, not by a RepeatableTimetable"
        )
    ends_ms = [end for end in (timetable.spec.end_before_ms, _optional_ms(dag.end_date)) if end is not None]
    return replace(
        timetable.spec,
        payload=payload,
        start_after_ms=_start_after_ms(timetable, _optional_ms(dag.start_date)),
        end_before_ms=min(ends_ms, default=None),
    )


def _start_after_ms(timetable: RepeatableTimetable, start_ms: int | None) -> int | None:
    """The start from which the engine fires as the DAG does."""
    spec, since_ms = timetable.spec, timetable.since_ms
    begins_ms = [begin for begin in (spec.start_after_ms, since_ms) if begin is not None]
    if start_ms is None:
        return max(begins_ms, default=None)
    if since_ms is None:
        return max([*begins_ms, start_ms])
    base_ms, interval = max(begins_ms), spec.pattern.interval_ms
    if interval is None or base_ms >= start_ms:
        return max(base_ms, start_ms - 1)  # with a row that began elsewhere, the start itself may fire
    return base_ms + (-(-(start_ms - base_ms) // interval) - 1) * interval


def _optional_ms(moment: datetime | None) -> int | None:
    return None if moment is None else _ms(moment)


def _ms(moment: datetime) -> int:
    return _us(moment) // 1000


def _us(moment: datetime) -> int:
    return timegm(moment.utctimetuple()) * 1_000_000 + moment.microsecond


def _datetime(us: int) -> DateTime:
    return instance(_EPOCH + timedelta(microseconds=us))
