"""The trigger that waits for jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.triggers.base import BaseTrigger, TriggerEvent

from chasqui_engine import ChasquiError, JobState, Queue
from chasqui_provider.connection.settings import DEFAULT_CONN_ID
from chasqui_provider.conversion import as_ids, short_text
from chasqui_provider.operators.job_ids import id_after_clear
from chasqui_provider.triggers.payloads import QuietEvent, result_event
from chasqui_provider.waiting.kills import OnKill, check_on_kill, end_jobs
from chasqui_provider.waiting.results import OnDead, check_on_dead
from chasqui_provider.waiting.shared_waits import shared_waits

_KILL_TIMEOUT_S = 5.0
_DEFERRED = "deferred"
_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States in which a task does not run again without a user's action."""


def ids_to_wait_for(value: Any) -> list[str]:
    """Like `as_ids`, but an empty list is allowed."""
    is_empty = value.strip() == "[]" if isinstance(value, str) else value in ([], (), set())
    return [] if is_empty else as_ids(value)


class ChasquiJobResultTrigger(BaseTrigger):
    """Fires once, when every job has ended, or the first is dead and `on_dead` is "fail".

    The event is `{"outcomes": [...]}` (see `chasqui_provider.triggers.payloads`), or `{"error": text}` when the wait
    itself is impossible. All of these triggers in one triggerer that share connection and queue share two Redis
    connections.

    :param on_kill: "abort" or "cancel" jobs when the task is killed, failed or cleared, or "leave" them.
    :param cancel_on_kill: of triggers that an older release has stored: "cancel".
    :param kept_for_next_try: the task waits for the same jobs when it runs again: a clear leaves them to it.
    :param not_before_s: when it may fire at the earliest, in seconds since the epoch (see
        `chasqui_provider.waiting.deferral`).
    """

    def __init__(
        self,
        job_ids: str | Sequence[str],
        queue_name: str | None = None,
        chasqui_conn_id: str = DEFAULT_CONN_ID,
        on_dead: OnDead = "fail",
        cancel_on_kill: bool = False,
        on_kill: OnKill | None = None,
        kept_for_next_try: bool = False,
        since_ms: int = 0,
        not_before_s: float = 0.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_ids = job_ids
        self.queue_name = queue_name
        self.chasqui_conn_id = chasqui_conn_id
        self.on_dead = check_on_dead(on_dead)
        # Not `on_kill`, which is a method.
        self.on_kill_action = check_on_kill(on_kill) or ("cancel" if cancel_on_kill else "leave")
        self.kept_for_next_try = kept_for_next_try
        self.since_ms = since_ms
        self.not_before_s = not_before_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments from which the triggerer recreates the trigger."""
        return (
            "chasqui_provider.triggers.chasqui.ChasquiJobResultTrigger",
            {
                "job_ids": self.job_ids,
                "queue_name": self.queue_name,
                "chasqui_conn_id": self.chasqui_conn_id,
                "on_dead": self.on_dead,
                "on_kill": self.on_kill_action,
                "kept_for_next_try": self.kept_for_next_try,
                "since_ms": self.since_ms,
                "not_before_s": self.not_before_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Waits, then fires."""
        event = QuietEvent(await self._wait())
        await asyncio.sleep(max(0.0, self.not_before_s - time.time()))
        yield event

    async def _wait(self) -> dict[str, Any]:
        try:
            async with shared_waits(self.chasqui_conn_id, self.queue_name) as waits:
                outcomes = await waits.wait_for_outcomes(
                    ids_to_wait_for(self.job_ids), stop_at_death=self.on_dead == "fail", since_ms=self.since_ms
                )
        except Exception as err:  # noqa: BLE001 - a failed trigger would skip a sensor with soft_fail
            return {"error": short_text(str(err) if isinstance(err, ChasquiError) else f"{type(err).__name__}: {err}")}
        return result_event(outcomes)

    async def on_kill(self) -> None:
        """Ends the jobs as `on_kill` says, unless somebody still waits for them."""
        if self.on_kill_action == "leave":
            return
        ti = self.task_instance
        states = set() if ti is None else await self._task_states(ti)
        if self.kept_for_next_try and ti is not None and not states & _ENDED:
            return
        async with asyncio.timeout(_KILL_TIMEOUT_S), shared_waits(self.chasqui_conn_id, self.queue_name) as waits:
            job_ids = ids_to_wait_for(self.job_ids)
            if _DEFERRED in states:
                job_ids = [job_id for job_id in job_ids if await _is_replaced(waits.queue, job_id, ti)]
                if not job_ids:
                    self.log.info("the task is still deferred, in another triggerer: its jobs are left alone")
            await end_jobs(waits.queue, job_ids, self.on_kill_action, self.log)

    async def _task_states(self, ti: Any) -> set[str | None]:
        found = await asyncio.to_thread(
            RuntimeTaskInstance.get_task_states,
            dag_id=ti.dag_id,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
            map_index=ti.map_index,
        )
        return {state for of_run in found.values() for state in of_run.values()}


async def _is_replaced(queue: Queue, job_id: str, ti: Any) -> bool:
    """Whether a deferred task waits for another job than this, because it was cleared.

    If not, it is this wait that goes on elsewhere: a triggerer that was silent for long finds its triggers given away,
    and calls `on_kill` for those as well.
    """
    next_id = id_after_clear(job_id, ti.try_number)
    return next_id is not None and (await queue.get_job(next_id)).state is not JobState.UNKNOWN
