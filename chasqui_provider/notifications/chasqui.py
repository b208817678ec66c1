"""The notifier: adds a job when a DAG or a task succeeds or fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from chasqui_engine import RedisError
from chasqui_provider.connection.settings import DEFAULT_CONN_ID
from chasqui_provider.conversion import from_json, to_json
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.operators.callables import keep_unrendered, value_of

_ABOUT = ("dag_id", "run_id", "task_id", "map_index", "try_number", "state")


class ChasquiNotifier(BaseNotifier):
    """Puts a job on a queue.

    :param payload: what the job carries, or a function that returns it and takes what it likes of the context; by
        default which dag, run and task it is about, its state, and the error.
    :param job_id: makes a second notification of the same id a no-op.
    """

    template_fields: Sequence[str] = ("queue_name", "job_name", "payload", "job_id")

    def __init__(
        self,
        *,
        job_name: str = "airflow.notification",
        payload: Any = None,
        job_id: str | None = None,
        queue_name: str | None = None,
        chasqui_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_name = job_name
        self.payload = keep_unrendered(payload)
        self.job_id = job_id
        self.queue_name = queue_name
        self.chasqui_conn_id = chasqui_conn_id

    def notify(self, context: Any) -> None:
        """Adds the job, from blocking code."""
        with ChasquiHook(self.chasqui_conn_id).open_queue(self.queue_name) as queue:
            queue.add(self.job_name, self._payload(context), job_id=self.job_id)

    async def async_notify(self, context: Any) -> None:
        """Adds the job, in an event loop."""
        hook = ChasquiHook(self.chasqui_conn_id)
        async with await hook.get_async_queue(self.queue_name) as queue:
            try:
                await queue.add(self.job_name, self._payload(context), job_id=self.job_id)
            except RedisError as err:
                raise (await hook.get_settings()).name_in(err) from err

    def _payload(self, context: Any) -> Any:
        if self.payload is None:
            return _about(context)
        return from_json(value_of(self.payload, context, self))


def _about(context: Any) -> dict[str, Any]:
    ti = context.get("ti") or context.get("dag_run")
    about = {name: to_json(getattr(ti, name)) for name in _ABOUT if getattr(ti, name, None) is not None}
    if (error := context.get("exception")) is not None:
        about["error"] = str(error)
    if (reason := context.get("reason")) is not None:
        about["reason"] = str(reason)
    return about
