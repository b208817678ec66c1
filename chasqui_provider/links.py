"""The link from a task to its queue's page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

import attrs
from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

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
    """Leads to the page of the queue that a task used."""

    name = "Queue"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address, or nothing when the task names no queue."""
        del ti_key
        queue_name = getattr(operator, "queue_name", None)
        return queue_page(queue_name, operator.chasqui_conn_id) if queue_name else ""
