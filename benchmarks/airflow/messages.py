"""Jobs into asset events of a real Airflow (SQLite): from the first event that is stored to the last."""

from __future__ import annotations

import sqlite3
import time
from datetime import datetime
from typing import Any

from benchmarks.airflow.real import airflow_with
from chasqui_engine import SyncQueue
from tests.provider.e2e.real_airflow import RealAirflow

QUEUE = "bench-messages"
_DAG = f"""
from airflow.sdk import DAG, AssetWatcher, task
from chasqui_provider.assets import queue_asset
from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger

trigger = ChasquiMessageTrigger("{QUEUE}", batch_size=@BATCH@, linger=0.2, max_in_flight=@IN_FLIGHT@)
watchers = [AssetWatcher(name="bench", trigger=trigger)]
# One run at a time, which does nothing: what is measured is the way into the database.
schedule = [queue_asset("{QUEUE}", watchers=watchers)]
with DAG("bench", schedule=schedule, is_paused_upon_creation=False, max_active_runs=1):
    @task
    def nothing(): ...
    nothing()
"""


def measure(jobs: int, batch_size: int, in_flight: int, payload_bytes: int = 0) -> dict[str, Any]:
    """Adds the jobs while the trigger runs, until all of them are stored and acked."""
    text = "x" * payload_bytes
    dag = _DAG.replace("@BATCH@", str(batch_size)).replace("@IN_FLIGHT@", str(in_flight))
    with airflow_with(dag) as (airflow, url), SyncQueue(QUEUE, redis_url=url) as queue:
        # The first job shows that the trigger runs.
        queue.add("first", None)
        airflow.until(lambda: _count_stored(airflow) == 1, "the trigger", 90)
        for start in range(0, jobs, 1000):
            numbers = range(start, min(start + 1000, jobs))
            queue.add_bulk([{"name": "n", "data": {"n": n, "text": text}} for n in numbers])
        added = time.monotonic()
        airflow.until(lambda: _count_stored(airflow) == jobs + 1, "all jobs", 600)
        stored_s = time.monotonic() - added
        airflow.until(lambda: not queue.counts().waiting and not queue.counts().active, "all acks", 60)
        acked_s = time.monotonic() - added
        times = _times(airflow)
    took_s = (times[-1] - times[1]).total_seconds()
    return {
        "jobs": jobs,
        "bytes of a payload": payload_bytes,
        "batch_size": batch_size,
        "max_in_flight": in_flight,
        "asset events": len(times) - 1,
        "jobs/s into asset events": round(jobs / took_s) if took_s else None,
        "events/s": round((len(times) - 1) / took_s, 1) if took_s else None,
        "all stored after s": round(stored_s, 1),
        "all acked after s": round(acked_s, 1),
    }


def _rows(airflow: RealAirflow, query: str) -> list[Any]:
    with sqlite3.connect(f"file:{airflow.home}/airflow.db?mode=ro", uri=True, timeout=30) as database:
        return database.execute(query).fetchall()


def _count_stored(airflow: RealAirflow) -> int:
    query = "SELECT COALESCE(SUM(json_array_length(extra, '$.payload.jobs')), 0) FROM asset_event"
    return int(_rows(airflow, query)[0][0])


def _times(airflow: RealAirflow) -> list[datetime]:
    return [datetime.fromisoformat(row[0]) for row in _rows(airflow, "SELECT timestamp FROM asset_event ORDER BY id")]
