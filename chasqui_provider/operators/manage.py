"""The operators that manage what is on a queue: repeatable specs, delayed jobs, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Variable

from chasqui_engine import MissedFiresPolicy, RepeatPattern
from chasqui_provider.conversion import as_backoff, as_ids, as_int, as_text, as_time, from_json
from chasqui_provider.operators.callables import keep_unrendered, value_of
from chasqui_provider.operators.enqueue import ChasquiOperator
from chasqui_provider.timetables.snapshot import snapshot_of, snapshot_variable

_MANY = 10_000


class ChasquiUpsertRepeatableOperator(ChasquiOperator):
    """Stores a repeatable spec, or replaces the one of the same name and pattern; returns its key.

    :param payload: the payload of its jobs, or a function that returns it, as for `ChasquiEnqueueOperator`.
    :param cron: when to fire, in the zone `tz`; or
    :param every_ms: the time from one fire to the next.
    :param limit: how many jobs it makes in all.
    :param start_after: it fires after this time.
    :param end_before: it does not fire after this time.
    :param missed_fires: what happens to missed fires: a `MissedFiresPolicy` or its fields.
    :param attempts: runs of each job in all before it is dead; the worker's number if left out.
    :param backoff: pause between them: milliseconds, or the fields of a `BackoffSpec`. A worker of ChasquiMQ 1.3.0 that
        schedules the queue drops a spec with `attempts` or `backoff`.
    :param key: the spec's key, in place of the one made of name and pattern.
    """

    template_fields: Sequence[str] = (
        *ChasquiOperator.template_fields,
        "job_name",
        "payload",
        "cron",
        "tz",
        "every_ms",
        "limit",
        "start_after",
        "end_before",
        "attempts",
        "backoff",
        "key",
    )

    def __init__(
        self,
        *,
        job_name: str,
        payload: Any = None,
        cron: str | None = None,
        tz: str | None = None,
        every_ms: int | str | None = None,
        limit: int | str | None = None,
        start_after: Any = None,
        end_before: Any = None,
        missed_fires: MissedFiresPolicy | dict[str, Any] | None = None,
        attempts: int | str | None = None,
        backoff: Any = None,
        key: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (cron is None) == (every_ms is None):
            raise ValueError("give cron or every_ms")
        self.job_name = job_name
        self.payload = keep_unrendered(payload)
        self.cron = cron
        self.tz = tz
        self.every_ms = every_ms
        self.limit = limit
        self.start_after = start_after
        self.end_before = end_before
        self.missed_fires = missed_fires
        self.attempts = attempts
        self.backoff = backoff
        self.key = key

    def execute(self, context: Any) -> str:
        """Stores it."""
        with self.hook.open_queue(self.queue_name) as queue:
            return queue.upsert_repeatable_job(
                as_text("job_name", self.job_name) or "",
                from_json(value_of(self.payload, context, self)),
                repeat=self._pattern(),
                limit=as_int("limit", self.limit),
                start_after_ms=_epoch_ms("start_after", self.start_after),
                end_before_ms=_epoch_ms("end_before", self.end_before),
                missed_fires=self.missed_fires,
                attempts=as_int("attempts", self.attempts),
                backoff=as_backoff(self.backoff),
                key=as_text("key", self.key),
            ).id

    def _pattern(self) -> RepeatPattern:
        if self.cron is not None:
            return RepeatPattern.cron(self.cron, tz=self.tz)
        return RepeatPattern.every(as_int("every_ms", self.every_ms) or 0)


class ChasquiRemoveRepeatableOperator(ChasquiOperator):
    """Removes a repeatable spec by its key; returns whether there was one."""

    template_fields: Sequence[str] = (*ChasquiOperator.template_fields, "key")

    def __init__(self, *, key: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key = key

    def execute(self, context: Any) -> bool:
        """Removes it."""
        del context
        with self.hook.open_queue(self.queue_name) as queue:
            return queue.remove_repeatable_by_key(self.key)


class ChasquiCancelDelayedOperator(ChasquiOperator):
    """Cancels delayed jobs; returns, by id, whether each was still delayed and so will never run."""

    template_fields: Sequence[str] = (*ChasquiOperator.template_fields, "job_ids")

    def __init__(self, *, job_ids: str | Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_ids = job_ids

    def execute(self, context: Any) -> dict[str, bool]:
        """Cancels the jobs."""
        del context
        job_ids = as_ids(self.job_ids)
        with self.hook.open_queue(self.queue_name) as queue:
            return {job_id: queue.cancel_delayed(job_id) for job_id in job_ids}


class ChasquiReplayDlqOperator(ChasquiOperator):
    """Replays dead letters; returns how many were moved back to the stream."""

    template_fields: Sequence[str] = (*ChasquiOperator.template_fields, "limit")

    def __init__(self, *, limit: int | str = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.limit = limit

    def execute(self, context: Any) -> int:
        """Moves them."""
        del context
        with self.hook.open_queue(self.queue_name) as queue:
            return queue.replay_dlq(as_int("limit", self.limit) or 0)


class ChasquiSnapshotRepeatablesOperator(ChasquiOperator):
    """Keeps a queue's repeatable specs in an Airflow variable, from which `dags_from_queue` makes DAGs.

    Returns the keys of the specs. When the server cannot be reached, the task fails and the snapshot is unchanged.
    """

    def execute(self, context: Any) -> list[str]:
        """Reads the specs and stores them."""
        del context
        with self.hook.open_queue(self.queue_name) as queue:
            specs = queue.get_repeatable_jobs(_MANY)
        Variable.set(snapshot_variable(queue.name, self.chasqui_conn_id), snapshot_of(specs), serialize_json=True)
        return [spec.key for spec in specs]


def _epoch_ms(name: str, value: Any) -> int | None:
    moment = as_time(name, value)
    return None if moment is None else int(moment.timestamp() * 1000)
