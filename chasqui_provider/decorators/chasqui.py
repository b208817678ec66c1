"""`@task.chasqui`: a TaskFlow function whose body runs on a Chasqui worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory

from chasqui_provider.conversion import from_json
from chasqui_provider.operators.enqueue import ChasquiEnqueueOperator
from chasqui_provider.task_functions import function_name


class _ChasquiDecoratedOperator(DecoratedOperator, ChasquiEnqueueOperator):
    """Sends a call to a worker and waits for its return value, without occupying a slot unless `deferrable` is off."""

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        "queue_name",
        "delay",
        "run_at",
        "attempts",
        "backoff",
        "priority",
        "job_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {**DecoratedOperator.template_fields_renderers}
    custom_operator_name = "@task.chasqui"

    def __init__(self, *, python_callable: Callable[..., Any], function: str | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("deferrable", True)
        kwargs["wait_for_result"] = True
        kwargs["job_name"] = function or function_name(python_callable)
        super().__init__(python_callable=python_callable, **kwargs)

    def job_payload(self, context: Any) -> Any:
        """The call: its arguments as plain data."""
        del context
        return {"args": from_json(list(self.op_args)), "kwargs": from_json(dict(self.op_kwargs))}


def chasqui_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Makes a task of a function that runs on a worker; its return value is the task's XCom.

    The worker must have registered the function under the same name: see `chasqui_provider.task_functions`.

    :param function: the name it is registered under, if not its own.
    :param kwargs: arguments of `ChasquiEnqueueOperator`: `queue_name`, `attempts`, `result_timeout` …
    """
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_ChasquiDecoratedOperator, **kwargs
    )
