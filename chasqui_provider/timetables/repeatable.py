"""Repeatable specs as DAG schedules, and DAG schedules as repeatable specs."""

from __future__ import annotations

import logging
import math
from calendar import timegm
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from pendulum import DateTime, instance

from chasqui_engine import ConfigError, MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_provider.timetables.fires import LATE_MS, Fires

if TYPE_CHECKING:
    from airflow.sdk import DAG

_log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _now_ms() -> int:
    return int(time() * 1000)


class RepeatableTimetable(Timetable):
    """A repeatable spec as a DAG's `schedule`: a run for each of its fires.

    `every` counts from the DAG's `start_date`, as it does from the upsert in the engine, and the first fire comes
    after it. `since_ms` takes its place where the DAG has none, or where the row of fires began elsewhere.
    With `catchup=True` every fire gets a run, however late; without it the spec's `missed_fires` decides.
    """

    def __init__(self, spec: RepeatableSpec, since_ms: int | None = None) -> None:
        if not isinstance(spec, RepeatableSpec):
            raise ConfigError(
                f"spec must be a RepeatableSpec, such as RepeatableSpec('report', RepeatPattern.cron('0 9 * * *'), "
                f"None); got {spec!r}"
            )
        self.spec = spec
        self.since_ms = since_ms
        self._fires = Fires(spec)
        self.description = f"Chasqui: {spec.resolved_key()}"

    def serialize(self) -> dict[str, Any]:
        """The spec as JSON, without its payload, which does not affect when it fires."""
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
        """The timetable from the output of `serialize`."""
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
        """Refuses a limit that takes too long to count."""
        try:
            self._fires.check()
        except ConfigError as err:
            raise AirflowTimetableInvalid(str(err)) from err

    @property
    def summary(self) -> str:
        """The summary shown in the list of DAGs."""
        pattern = self.spec.pattern
        if pattern.interval_ms is not None:
            return f"every {timedelta(milliseconds=pattern.interval_ms)}"
        return f"{pattern.expression} {pattern.tz or 'UTC'}"

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """The data interval of a manual run begins and ends at its time."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The next run. Never raises: operators call it as well."""
        now_ms = _now_ms()
        first_ms = self._first_ms(restriction, now_ms)
        if first_ms is None:
            return None
        due_ms = first_ms
        if last_automated_data_interval is not None:
            following_ms = self._fires.after(_ms(last_automated_data_interval.start))
            if following_ms is None:
                return None
            due_ms = following_ms
        latest_ms = math.inf if restriction.latest is None else _ms(restriction.latest)
        end_ms = min(latest_ms, self._fires.end_ms(first_ms))
        next_ms = due_ms if restriction.catchup else self._fires.choose(due_ms, now_ms, end_ms)
        return None if next_ms is None or next_ms > end_ms else _run_at(next_ms)

    def _first_ms(self, restriction: TimeRestriction, now_ms: int) -> int | None:
        start_ms = self._start_ms(restriction)
        if start_ms is None:
            if self.spec.limit is not None:
                _log.error("%s: no run is created: limit counts from a start, and the DAG has none", self.description)
                return None
            start_ms = self._recent_ms(now_ms - LATE_MS)
        return self._fires.first(start_ms, _optional_ms(restriction.earliest) or 0)

    def _start_ms(self, restriction: TimeRestriction) -> int | None:
        starts_ms = (self.since_ms, _optional_ms(restriction.earliest), self.spec.start_after_ms)
        return next((start_ms for start_ms in starts_ms if start_ms is not None), None)

    def _recent_ms(self, at_ms: int) -> int:
        """The base of `every` without a start: whole intervals since the epoch, the same at every parse."""
        interval = self.spec.pattern.interval_ms
        return at_ms if interval is None else at_ms // interval * interval


def _run_at(at_ms: int) -> DagRunInfo | None:
    try:
        return DagRunInfo.exact(instance(_EPOCH + timedelta(milliseconds=at_ms)))
    except OverflowError:  # later than any date
        return None


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
    return timegm(moment.utctimetuple()) * 1000 + moment.microsecond // 1000
