"""A queue that reports hook lineage to Airflow: what a task's own code reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

from chasqui_engine import Job, JobId, SyncQueue
from chasqui_provider.connection.location import location_of


class ReportingQueue(SyncQueue):
    """Reports the queue as an output when jobs are added to it, and as an input when results are read, once each."""

    def __init__(self, name: str, *, hook: Any, redis_url: str, **options: Any) -> None:
        super().__init__(name, redis_url=redis_url, **options)
        self._hook = hook
        self._asset = _asset_of(name, redis_url, hook.chasqui_conn_id)
        self._unreported = {"input", "output"}

    def add(self, name: str, data: Any, **options: Any) -> Job:
        """`Queue.add`."""
        self._report("output")
        return super().add(name, data, **options)

    def add_unique(self, name: str, data: Any, **options: Any) -> Job:
        """`Queue.add_unique`."""
        self._report("output")
        return super().add_unique(name, data, **options)

    def add_bulk(self, jobs: Sequence[Mapping[str, Any]]) -> list[Job]:
        """`Queue.add_bulk`."""
        self._report("output")
        return super().add_bulk(jobs)

    def get_job_result(self, job_id: JobId) -> Any:
        """`Queue.get_job_result`."""
        self._report("input")
        return super().get_job_result(job_id)

    def get_job_result_bulk(self, job_ids: Sequence[JobId]) -> list[Any]:
        """`Queue.get_job_result_bulk`."""
        self._report("input")
        return super().get_job_result_bulk(job_ids)

    def wait_for_result(self, job: Job | JobId, *, timeout: float = 30.0) -> Any:
        """`Job.wait_for_result`, for a job or its id."""
        self._report("input")
        return super().wait_for_result(job, timeout=timeout)

    def _report(self, side: str) -> None:
        if side not in self._unreported:
            return
        self._unreported.remove(side)
        collector = get_hook_lineage_collector()
        add = collector.add_output_asset if side == "output" else collector.add_input_asset
        add(self._hook, scheme="chasqui", asset_kwargs=self._asset)


def _asset_of(queue_name: str, redis_url: str, conn_id: str) -> dict[str, Any]:
    """The asset by its server, where that is one server; by its connection otherwise."""
    place = location_of(redis_url)
    if place is None or place.scheme != "redis":
        return {"queue_name": queue_name, "chasqui_conn_id": conn_id}
    host, _, port = place.hosts.rpartition(":")
    return {"queue_name": queue_name, "host": host, "port": int(port), "db": int(place.path or 0)}
