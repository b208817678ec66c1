"""The link from a task to its queue's page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

import attrs
from airflow.sdk import BaseOperatorLink

from chasqui_engine import ChasquiError
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.version_compat import AirflowNotFoundException, conf

_DEFAULT = "/chasqui"


def airflow_path() -> str:
    """The path that Airflow is served under; empty for the root."""
    return urlsplit(str(conf.get("api", "base_url", fallback=""))).path.rstrip("/")


def queue_page(queue_name: str, chasqui_conn_id: str) -> str:
    """The address of a queue's page."""
    base = str(conf.get("chasqui", "dashboard_url", fallback=_DEFAULT)).rstrip("/")
    if base.startswith("/"):
        base = airflow_path() + base
    return f"{base}/queues/{quote(chasqui_conn_id, safe='')}/{quote(queue_name, safe='')}"


@attrs.define()
class ChasquiQueueLink(BaseOperatorLink):
    """Links to the page of the queue that a task used."""

    name = "Queue"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address; empty when neither the task nor its connection names a queue."""
        del ti_key
        conn_id = operator.chasqui_conn_id
        queue_name = getattr(operator, "queue_name", None) or _default_queue(conn_id)
        return queue_page(queue_name, conn_id) if queue_name else ""


def _default_queue(conn_id: str) -> str | None:
    try:
        return ChasquiHook(conn_id).settings().queue_name
    except (ChasquiError, AirflowNotFoundException):
        return None  # the task itself fails with this error, and in more detail
