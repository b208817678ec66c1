"""A DAG that runs when jobs arrive: each run gets the jobs that woke it, and they are acked when it is safe."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, AssetWatcher, task

from chasqui_provider.assets import queue_asset, triggering_jobs
from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger

# Up to 100 jobs that come within half a second make one run.
orders = queue_asset(
    "orders",
    watchers=[AssetWatcher(name="orders", trigger=ChasquiMessageTrigger("orders", batch_size=100, linger=0.5))],
)

with DAG("woken_by_jobs", schedule=[orders], tags=["chasqui"]) as dag:

    @task
    def handle(**context: Any) -> list[str]:
        return sorted(job["id"] for job in triggering_jobs(context))

    handle()
