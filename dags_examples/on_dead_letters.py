"""A DAG that runs when jobs die: it says why, and gives them another life."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from chasqui_provider.assets import triggering_events
from chasqui_provider.operators.chasqui import ChasquiReplayDlqOperator
from chasqui_provider.triggers.chasqui import ChasquiEventTrigger

deaths = Asset(
    "orders_that_died",
    watchers=[AssetWatcher(name="deaths", trigger=ChasquiEventTrigger("orders", events=["dlq"]))],
)

with DAG("on_dead_letters", schedule=[deaths], tags=["chasqui"]) as dag:

    @task
    def report(**context: Any) -> list[str]:
        return [f"{event['job_id']}: {event['reason']}" for event in triggering_events(context)]

    report() >> ChasquiReplayDlqOperator(task_id="replay", queue_name="orders", limit=100)
