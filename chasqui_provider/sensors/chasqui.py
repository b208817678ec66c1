"""The sensor that waits for jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseSensorOperator, PokeReturnValue, XComArg
from airflow.triggers.base import StartTriggerArgs

from chasqui_engine import ChasquiError
from chasqui_provider.connection import DEFAULT_CONN_ID
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.links import ChasquiQueueLink
from chasqui_provider.results import (
    ChasquiUnavailableError,
    OnDead,
    check_on_dead,
    values_of,
    wait_now,
)
from chasqui_provider.triggers.result import ChasquiJobResultTrigger
from chasqui_provider.values import as_ids

_POKE_S = 4.0
"""Long enough to search the events for jobs that ended before anybody waited."""


class ChasquiJobResultSensor(BaseSensorOperator):
    """Waits until jobs have ended; returns the result of one, or a list of results in the order of the ids.

    A job in the dead letters fails the task at once, with reason and detail (`soft_fail` makes it a skip), or with
    `on_dead="return"` its death is returned in place of its result. A job that completed but whose result is gone
    fails the task too, instead of being waited for in vain.

    :param job_ids: one id, or many.
    :param deferrable: wait without a worker slot; such a sensor starts in the triggerer, without any worker before.
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
        on_dead: OnDead = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_ids = job_ids
        self.queue_name = queue_name
        self.chasqui_conn_id = chasqui_conn_id
        self.deferrable = deferrable
        self.on_dead = check_on_dead(on_dead)
        # An XCom can only be resolved in a worker; text, also a template, in the triggerer as well.
        if deferrable and not isinstance(job_ids, XComArg) and not isinstance(queue_name, XComArg):
            self.start_from_trigger = True
            self.start_trigger_args = StartTriggerArgs(
                trigger_cls="chasqui_provider.triggers.chasqui.ChasquiJobResultTrigger",
                trigger_kwargs={
                    "job_ids": job_ids,
                    "queue_name": queue_name,
                    "chasqui_conn_id": chasqui_conn_id,
                    "on_dead": on_dead,
                },
                next_method="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )

    def execute(self, context: Any) -> Any:
        """Waits in the triggerer, or pokes."""
        if not self.deferrable:
            return super().execute(context)
        trigger = ChasquiJobResultTrigger(
            job_ids=as_ids(self.job_ids),
            queue_name=self.queue_name,
            chasqui_conn_id=self.chasqui_conn_id,
            on_dead=self.on_dead,
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def poke(self, context: Any) -> PokeReturnValue:
        """Looks whether all have ended."""
        del context
        try:
            endings = wait_now(
                ChasquiHook(self.chasqui_conn_id).settings(),
                self.queue_name,
                as_ids(self.job_ids),
                timeout_s=_POKE_S,
                on_dead=self.on_dead,
            )
        except TimeoutError:
            return PokeReturnValue(is_done=False)
        except ChasquiError as err:
            raise ChasquiUnavailableError(str(err)) from err
        return PokeReturnValue(is_done=True, xcom_value=self._results({"endings": endings}))

    def execute_complete(self, context: Any, event: Any) -> Any:
        """Goes on after the wait."""
        del context
        return self._results(event)

    def _results(self, event: Any) -> Any:
        results = values_of(event, self.on_dead)
        one = isinstance(self.job_ids, str) and not self.job_ids.strip().startswith("[")
        return results[0] if one else results
