"""A DAG on dead letters."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from chasqui_provider.assets import triggering_events
from chasqui_provider.triggers.chasqui import ChasquiEventTrigger

deaths = Asset(
    "e2e_deaths", watchers=[AssetWatcher(name="deaths", trigger=ChasquiEventTrigger("e2e-waits", events=["dlq"]))]
)

with DAG("deaths", schedule=[deaths]):

    @task
    def report(**context: Any) -> list[str]:
        return [str(event["job_id"]) for event in triggering_events(context)]

    report()
