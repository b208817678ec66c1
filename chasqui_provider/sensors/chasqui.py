"""The sensor that waits for jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.triggers.base import StartTriggerArgs

from chasqui_engine import ChasquiError
from chasqui_provider.connection.settings import DEFAULT_CONN_ID
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.operators.lineage import MOST_JOB_IDS, ReadsFromQueue
from chasqui_provider.operators.links import ChasquiQueueLink
from chasqui_provider.triggers.result import ChasquiJobResultTrigger, ids_to_wait_for
from chasqui_provider.version_compat import AirflowSensorTimeout, conf
from chasqui_provider.waiting.deferral import check_defer_after, news_lag_s, resumable_at_s, wait_before_deferring
from chasqui_provider.waiting.kills import OnKill, check_on_kill, end_jobs_now
from chasqui_provider.waiting.results import (
    ChasquiUnavailableError,
    OnDead,
    check_on_dead,
    read_outcomes_now,
    timeout_text,
    values_of,
)

_TEMPLATE_MARKS = ("{{", "{%", "{#")


class ChasquiJobResultSensor(ReadsFromQueue, BaseSensorOperator):
    """Waits until jobs have ended; returns the result of one, or a list of results in the order of the ids.

    A job in the dead letters fails the task at once, with reason and detail (`soft_fail` makes it a skip), or with
    `on_dead="return"` its death is returned in place of its result. A job that completed but whose result is gone
    fails the task too, instead of waiting until the timeout.

    :param job_ids: one id, or many; of none there is nothing to wait for.
    :param deferrable: wait without a worker slot, unless the jobs end at once. Where ids and queue are known when the
        DAG is written, the sensor starts in the triggerer, without any worker before, unless `defer_after` is given.
    :param defer_after: how long the worker itself waits before it defers: a `timedelta` or seconds. By default as long
        as jobs of this queue took of late, if that is no longer than deferring takes, and not at all otherwise.
    :param on_kill: what becomes of the jobs when the waiting task is killed, failed or cleared: "leave" them, which is
        the default because others added them; "abort" them, also those that run; "cancel" those that are still delayed.
    """

    template_fields: Sequence[str] = ("queue_name", "job_ids")
    ui_color = "#f3e6d3"
    operator_extra_links = (ChasquiQueueLink(),)

    def __init__(
        self,
        *,
        job_ids: Any,
        queue_name: str | None = None,
        chasqui_conn_id: str = DEFAULT_CONN_ID,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        defer_after: timedelta | float | None = None,
        on_dead: OnDead = "fail",
        on_kill: OnKill = "leave",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_ids = job_ids
        self.queue_name = queue_name
        self.chasqui_conn_id = chasqui_conn_id
        self.deferrable = deferrable
        self.defer_after = check_defer_after(defer_after)
        self.on_dead = check_on_dead(on_dead)
        # Not `on_kill`, which is a method.
        self.on_kill_action = check_on_kill(on_kill) or "leave"
        if deferrable and not self.defer_after and _is_plain(job_ids) and _is_plain(queue_name):
            self.start_from_trigger = True
            self.start_trigger_args = StartTriggerArgs(
                trigger_cls="chasqui_provider.triggers.chasqui.ChasquiJobResultTrigger",
                trigger_kwargs={
                    "job_ids": job_ids,
                    "queue_name": queue_name,
                    "chasqui_conn_id": chasqui_conn_id,
                    "on_dead": on_dead,
                    "on_kill": self.on_kill_action,
                },
                next_method="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )

    def execute(self, context: Any) -> Any:
        """Defers to the triggerer, or pokes."""
        job_ids = ids_to_wait_for(self.job_ids)
        if not job_ids:
            return []
        if not self.deferrable:
            self._raise_poke_interval()
            return super().execute(context)
        settings = ChasquiHook(self.chasqui_conn_id).settings()
        outcomes = wait_before_deferring(self, settings, job_ids)
        if outcomes is not None:
            return self.resume_execution("execute_complete", {"event": {"outcomes": outcomes}}, context)
        timeout = timedelta(seconds=self.timeout)
        trigger = ChasquiJobResultTrigger(
            job_ids=job_ids,
            queue_name=self.queue_name,
            chasqui_conn_id=self.chasqui_conn_id,
            on_dead=self.on_dead,
            on_kill=self.on_kill_action,
            not_before_s=resumable_at_s(self, timeout),
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)

    def _raise_poke_interval(self) -> None:
        """In mode "reschedule" a task is queued again between pokes, as after a deferral, and can fail the same way.

        This holds for every executor: the guards that close the race after a deferral know deferred tasks only. While
        no slot is free, a task between two pokes looks like one that was killed.
        """
        shortest_s = news_lag_s()
        if self.mode == "reschedule" and self.poke_interval < shortest_s:
            self.log.info(
                "poke_interval raised from %g s to %g s: Airflow would fail the task with a shorter one",
                self.poke_interval,
                shortest_s,
            )
            self.poke_interval = shortest_s

    def poke(self, context: Any) -> PokeReturnValue:
        """Whether all jobs have ended."""
        del context
        try:
            settings, job_ids = ChasquiHook(self.chasqui_conn_id).settings(), ids_to_wait_for(self.job_ids)
            outcomes = read_outcomes_now(settings, self.queue_name, job_ids, on_dead=self.on_dead)
        except ChasquiError as err:
            raise ChasquiUnavailableError(str(err)) from err
        if outcomes is None:
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=self._results({"outcomes": outcomes}))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Resumes after the wait; a timeout names the jobs that did not end."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as err:
            settings, job_ids = ChasquiHook(self.chasqui_conn_id).settings(), ids_to_wait_for(self.job_ids)
            limit = f"{timedelta(seconds=self.timeout)} (timeout)"
            raise AirflowSensorTimeout(timeout_text(settings, self.queue_name, job_ids, limit)) from err

    def on_kill(self) -> None:
        """Ends the jobs as `on_kill` says."""
        settings, job_ids = ChasquiHook(self.chasqui_conn_id).settings(), ids_to_wait_for(self.job_ids)
        end_jobs_now(settings, self.queue_name, job_ids, self.on_kill_action, self.log)

    def execute_complete(self, context: Any, event: Any) -> Any:
        """Resumes after the wait."""
        del context
        return self._results(event)

    def lineage_jobs(self) -> tuple[list[str], int]:
        """The ids of the jobs to wait for."""
        job_ids = ids_to_wait_for(self.job_ids)
        return job_ids[:MOST_JOB_IDS], len(job_ids)

    def _results(self, event: Any) -> Any:
        results = values_of(event, self.on_dead, ChasquiHook(self.chasqui_conn_id), self.queue_name)
        one = isinstance(self.job_ids, str) and not self.job_ids.strip().startswith("[")
        return results[0] if one else results


def _is_plain(value: Any) -> bool:
    """Whether no template or XCom is left to be rendered.

    An XCom can only be read in a worker. So can a template: of what one may ask for while it is rendered, the
    triggerer of Airflow 3.3 answers a part, and is silent for ever about the rest, XComs among it.
    """
    if isinstance(value, str):
        return not any(mark in value for mark in _TEMPLATE_MARKS)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return value is None
