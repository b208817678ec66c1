"""The operator that puts one job on a queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from time import time
from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from chasqui_engine import ConfigError, ProducerConfig
from chasqui_provider.connection.settings import DEFAULT_CONN_ID, Settings
from chasqui_provider.conversion import as_backoff, as_duration, as_int, as_text, as_time, from_json
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.operators.callables import keep_unrendered, value_of
from chasqui_provider.operators.job_ids import task_job_id
from chasqui_provider.operators.lineage import AddsToQueue
from chasqui_provider.operators.links import ChasquiQueueLink
from chasqui_provider.triggers.result import ChasquiJobResultTrigger
from chasqui_provider.version_compat import TaskDeferralTimeout, conf
from chasqui_provider.waiting.deferral import check_defer_after, resumable_at_s, wait_before_deferring
from chasqui_provider.waiting.kills import OnKill, check_on_kill, end_jobs_now
from chasqui_provider.waiting.outcome import Outcome
from chasqui_provider.waiting.results import OnDead, check_on_dead, timeout_text, values_of, wait_now

ADDED = "added"
"""Key of the XCom that is `false` when a task added no job because the id was taken."""


def add_options(source: Any) -> dict[str, Any]:
    """Arguments of `Queue.add` from the fields of that name, which may be rendered templates."""
    get = source.get if isinstance(source, dict) else lambda name: getattr(source, name)
    delay, run_at = as_duration("delay", get("delay")), as_time("run_at", get("run_at"))
    if delay is not None and run_at is not None:
        raise ConfigError("give delay or run_at, not both")
    given = {
        "delay": delay,
        "delay_ms": run_at,
        "attempts": as_int("attempts", get("attempts")),
        "backoff": as_backoff(get("backoff")),
        "priority": as_int("priority", get("priority")),
    }
    return {name: value for name, value in given.items() if value is not None}


def earliest_of_id_ms(settings: Settings) -> int:
    """Events from before this belong to an earlier job with the same id."""
    taken_s = settings.queue_options.get("dedup_ttl_secs") or ProducerConfig().dedup_ttl_secs
    return int((time() - taken_s) * 1000)


def _check_timeout(value: timedelta | float | None) -> timedelta | None:
    timeout = as_duration("result_timeout", value)
    if timeout is not None and timeout <= timedelta(0):
        raise ConfigError(f"result_timeout must be more than 0, got {value!r}")
    return timeout


class ChasquiOperator(BaseOperator):
    """Base class of the operators of this package."""

    template_fields: Sequence[str] = ("queue_name",)
    ui_color = "#f3e6d3"
    operator_extra_links = (ChasquiQueueLink(),)

    def __init__(self, *, queue_name: str | None = None, chasqui_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.chasqui_conn_id = chasqui_conn_id

    @property
    def hook(self) -> ChasquiHook:
        """The hook of the task's connection; an operator reports its lineage itself."""
        return ChasquiHook(self.chasqui_conn_id, report_lineage=False)


class ChasquiEnqueueOperator(AddsToQueue, ChasquiOperator):
    """Puts one job on a queue; returns its id, or its result with `wait_for_result`.

    :param job_name: the job's name.
    :param payload: anything MessagePack can hold, or a function that returns it: called when the task runs, with what
        it takes of the task's context by name.
    :param delay: run it so much later: a `timedelta` or seconds.
    :param run_at: run it at this time.
    :param attempts: runs in all before the job is dead; the worker's number if left out.
    :param backoff: pause between them: milliseconds, or the fields of a `BackoffSpec`.
    :param priority: 0 is the first; a job of 1 or more waits until no job of a smaller one does. Pools and
        `priority_weight` order the tasks that add, this orders the jobs that they added.
    :param job_id: by default one made of dag, run, task, map index and clears, so that a retry does not add the job
        again, and a clear does. An id that is given is used as it is, after a clear too.
    :param fresh_id: ask for a new id at every try instead.
    :param wait_for_result: wait until the job has ended.
    :param deferrable: wait without a worker slot, unless the job ends at once.
    :param defer_after: how long the worker itself waits before it defers: a `timedelta` or seconds. By default as long
        as jobs of this name took of late, if that is no longer than deferring takes, and not at all otherwise.
    :param result_timeout: how long to wait at most: a `timedelta` or seconds.
    :param on_dead: "fail" the task when the job is dead, or "return" what is known about its death.
    :param on_kill: what becomes of the job when the waiting task is killed, failed or cleared: "abort" it, also while
        it runs; "cancel" it if it is still delayed; "leave" it. By default a job that this task added is aborted.
    :param cancel_on_kill: the old name of `on_kill="cancel"`.
    """

    template_fields: Sequence[str] = (
        *ChasquiOperator.template_fields,
        "job_name",
        "payload",
        "delay",
        "run_at",
        "attempts",
        "backoff",
        "priority",
        "job_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"payload": "json"}

    def __init__(
        self,
        *,
        job_name: str = "",
        payload: Any = None,
        delay: timedelta | float | str | None = None,
        run_at: Any = None,
        attempts: int | str | None = None,
        backoff: Any = None,
        priority: int | str | None = None,
        job_id: str | int | None = None,
        fresh_id: bool = False,
        wait_for_result: bool = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        defer_after: timedelta | float | None = None,
        result_timeout: timedelta | float | None = None,
        on_dead: OnDead = "fail",
        on_kill: OnKill | None = None,
        cancel_on_kill: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_name = job_name
        self.payload = keep_unrendered(payload)
        self.delay = delay
        self.run_at = run_at
        self.attempts = attempts
        self.backoff = backoff
        self.priority = priority
        self.job_id = job_id
        self.fresh_id = fresh_id
        self.wait_for_result = wait_for_result
        self.deferrable = deferrable
        self.defer_after = check_defer_after(defer_after)
        self.result_timeout = _check_timeout(result_timeout)
        self.on_dead = check_on_dead(on_dead)
        # Not `on_kill`, which is a method.
        self.on_kill_action = check_on_kill(on_kill, cancel_on_kill)
        self._waiting_for: str | None = None
        self._is_given = self._has_added = False

    def execute(self, context: Any) -> Any:
        """Adds the job, and waits for it with `wait_for_result`."""
        settings = self.hook.settings()
        job_id = self._add(context)
        if not self.wait_for_result:
            return job_id
        since_ms = earliest_of_id_ms(settings)
        self._waiting_for = job_id
        wait = self._wait_or_defer if self.deferrable else self._wait
        return self._result({"outcomes": wait(settings, job_id, since_ms)})

    def execute_complete(self, context: Any, event: Any) -> Any:
        """Resumes after the wait."""
        del context
        self.note_jobs(outcome["job_id"] for outcome in event.get("outcomes", ()))
        return self._result(event)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Resumes after the wait; a timeout names the job that did not end."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as err:
            job_id = as_text("job_id", self.job_id) or ("" if self.fresh_id else task_job_id(context))
            raise TaskDeferralTimeout(self._timeout_text(self.hook.settings(), job_id)) from err

    def _timeout_text(self, settings: Settings, job_id: str) -> str:
        limit = f"{self.result_timeout} (result_timeout)"
        return timeout_text(settings, self.queue_name, [job_id] if job_id else [], limit)

    def on_kill(self) -> None:
        """Ends the job as `on_kill` says."""
        if self._waiting_for is not None:
            end_jobs_now(self.hook.settings(), self.queue_name, [self._waiting_for], self._on_kill(), self.log)

    def _on_kill(self) -> OnKill:
        is_foreign = self._is_given and not self._has_added
        return self.on_kill_action or ("leave" if is_foreign else "abort")

    def job_payload(self, context: Any) -> Any:
        """The job's payload."""
        return from_json(value_of(self.payload, context, self))

    def _add(self, context: Any) -> str:
        options = add_options(self)
        job_name = as_text("job_name", self.job_name) or ""
        job_id = as_text("job_id", self.job_id)
        self._is_given = job_id is not None
        if job_id is None and not self.fresh_id:
            job_id = task_job_id(context)
        with self.hook.open_queue(self.queue_name) as queue:
            job = queue.add(job_name, self.job_payload(context), job_id=job_id, **options)
        self.note_jobs([job.id])
        self._has_added = queue.added > 0
        if queue.added:
            self.log.info("added job %s to queue %s", job.id, queue.name)
        else:
            self._report_taken_id(context, job.id, queue.name)
        return job.id

    def _report_taken_id(self, context: Any, job_id: str, queue_name: str) -> None:
        self.log.warning("job id %s is already taken on queue %s; nothing was added", job_id, queue_name)
        if self.do_xcom_push:
            context["ti"].xcom_push(key=ADDED, value=False)

    def _wait(self, settings: Settings, job_id: str, since_ms: int) -> list[Outcome]:
        timeout_s = None if self.result_timeout is None else self.result_timeout.total_seconds()
        try:
            return wait_now(
                settings, self.queue_name, [job_id], timeout_s=timeout_s, on_dead=self.on_dead, since_ms=since_ms
            )
        except TimeoutError as err:
            raise TimeoutError(self._timeout_text(settings, job_id)) from err

    def _wait_or_defer(self, settings: Settings, job_id: str, since_ms: int) -> list[Outcome]:
        if self.delay is None and self.run_at is None:
            outcomes = wait_before_deferring(self, settings, [job_id], job_name=self.job_name, since_ms=since_ms)
            if outcomes is not None:
                return outcomes
        trigger = self._trigger(job_id, since_ms)
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=self.result_timeout)

    def _trigger(self, job_id: str, since_ms: int) -> ChasquiJobResultTrigger:
        return ChasquiJobResultTrigger(
            job_ids=[job_id],
            queue_name=self.queue_name,
            chasqui_conn_id=self.chasqui_conn_id,
            on_dead=self.on_dead,
            on_kill=self._on_kill(),
            kept_for_next_try=self._is_given,
            since_ms=since_ms,
            not_before_s=resumable_at_s(self, self.result_timeout),
        )

    def _result(self, event: Any) -> Any:
        return values_of(event, self.on_dead, self.hook, self.queue_name)[0]
