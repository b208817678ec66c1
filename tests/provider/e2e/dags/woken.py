"""Two DAGs that the jobs of one queue wake, each job one of them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from chasqui_provider.assets import queue_asset, triggering_jobs
from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger


@task
def take(**context: Any) -> list[str]:
    return [job["id"] for job in triggering_jobs(context)]


def watcher(**options: Any) -> list[AssetWatcher]:
    # Few at a time, so that two triggerers both get some.
    return [AssetWatcher(name="orders", trigger=ChasquiMessageTrigger("e2e-orders", batch_size=10, **options))]


with DAG("woken", schedule=[queue_asset("e2e-orders", watchers=watcher(linger=0.3, max_in_flight=10))]):
    take()

# Other options make it a trigger of its own.
with DAG("woken_too", schedule=[Asset("e2e_orders_too", watchers=watcher(linger=0.4, max_in_flight=10))]):
    take()
