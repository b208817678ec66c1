"""What a task did with a queue, for OpenLineage: the queue as a dataset, the jobs as a run facet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from chasqui_engine import ChasquiError
from chasqui_provider.connection.location import location_of
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.version_compat import AirflowNotFoundException

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    Lineage = OperatorLineage[Any, Any]

MOST_JOB_IDS = 100
"""At most this many ids in a run facet: every task sends an event, and a bulk may add millions of jobs."""


class _QueueLineage:
    """The methods that OpenLineage calls; they do nothing where it is not installed."""

    queue_name: str | None
    chasqui_conn_id: str
    lineage_side: Literal["inputs", "outputs"]

    def lineage_jobs(self) -> tuple[list[str], int]:
        """The first ids of the task's jobs, and how many there are."""
        raise NotImplementedError

    def get_openlineage_facets_on_start(self) -> Lineage | None:
        """The queue that the task is about to use."""
        return self._lineage()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Lineage | None:
        """The queue that the task used, and its jobs."""
        del task_instance
        return self._lineage()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Lineage | None:
        """The same for a failed task: the jobs that it added are on the queue."""
        del task_instance
        return self._lineage()

    def _lineage(self) -> Lineage | None:
        try:
            from airflow.providers.common.compat.openlineage.facet import Dataset
            from airflow.providers.openlineage.extractors import OperatorLineage

            from chasqui_provider.operators.lineage_facets import ChasquiJobsRunFacet
        except ImportError:
            return None
        try:
            settings = ChasquiHook(self.chasqui_conn_id).settings()
            place, queue = location_of(settings.url), settings.name_of(self.queue_name)
            ids, count = self.lineage_jobs()
        except (ChasquiError, AirflowNotFoundException):
            return None  # the task itself fails with this error, and in more detail
        if place is None:
            return None
        dataset = Dataset(namespace=place.namespace, name=queue)
        lineage: Lineage = OperatorLineage()
        getattr(lineage, self.lineage_side).append(dataset)
        if count:
            lineage.run_facets["chasqui_jobs"] = ChasquiJobsRunFacet(queue=queue, jobIds=ids, jobCount=count)
        return lineage


class AddsToQueue(_QueueLineage):
    """For operators that add jobs: the queue is what they write to."""

    lineage_side = "outputs"
    _noted: tuple[str, ...] = ()
    _noted_count = 0

    def note_jobs(self, ids: Iterable[str]) -> None:
        """Remembers jobs that the task added."""
        ids = list(ids)
        self._noted = (*self._noted, *ids[: MOST_JOB_IDS - len(self._noted)])
        self._noted_count += len(ids)

    def lineage_jobs(self) -> tuple[list[str], int]:
        """The jobs added so far."""
        return list(self._noted), self._noted_count


class ReadsFromQueue(_QueueLineage):
    """For sensors: the queue is what they read results from."""

    lineage_side = "inputs"
