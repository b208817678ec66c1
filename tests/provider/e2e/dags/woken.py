"""A DAG that the jobs of a queue wake, through two triggers that share them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, AssetWatcher, task

from chasqui_provider.assets import queue_asset, triggering_jobs
from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger


def watcher(name: str, linger: float) -> AssetWatcher:
    # Few at a time, so that two triggerers both get some. Other options make it a trigger of its own.
    trigger = ChasquiMessageTrigger("e2e-orders", batch_size=10, max_in_flight=10, linger=linger)
    return AssetWatcher(name=name, trigger=trigger)


with DAG("woken", schedule=[queue_asset("e2e-orders", watchers=[watcher("one", 0.3), watcher("other", 0.4)])]):

    @task
    def take(**context: Any) -> list[str]:
        return [job["id"] for job in triggering_jobs(context)]

    take()
