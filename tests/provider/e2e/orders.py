"""The jobs that wake a DAG: added, seen in Airflow's events, acked, and taken by its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis

from chasqui_engine import SyncQueue
from tests.provider.e2e.real_airflow import IS_3_3, ORDERS, RealAirflow
from tests.provider.integration.test_odd_values import nested

SECRET = "secret-"
"""What a payload holds and no log may show."""


def add(queue: SyncQueue, ids: list[str]) -> None:
    queue.add_bulk([{"name": "order", "data": {"id": job_id}, "job_id": job_id} for job_id in ids])


def add_odd(queue: SyncQueue) -> list[str]:
    """Jobs that Airflow finds hard to hold; the ids of those that it can. The other one goes to the dead letters."""
    odd = {"odd-nul": "a\0b", "odd-deep": nested(400), "odd-large": SECRET * 100_000, "odd-bytes": b"\0\xff"}
    queue.add_bulk([{"name": "order", "data": data, "job_id": job_id} for job_id, data in odd.items()])
    return [job_id for job_id in odd if job_id != "odd-deep"]


def all_stored(airflow: RealAirflow, ids: list[str]) -> bool:
    return set(ids) <= set(airflow.woken_by())


def ask(folder: Path, *command: str) -> Any:
    with redis.Redis(unix_socket_path=str(next(folder.rglob("*.sock")))) as client:
        return client.execute_command(*command)


def pending(folder: Path) -> int:
    return int(ask(folder, "XPENDING", f"{{chasqui:{ORDERS}}}:stream", "default")["pending"])


def not_acked(folder: Path) -> int:
    return int(ask(folder, "XLEN", f"{{chasqui:{ORDERS}}}:stream"))


def all_taken(airflow: RealAirflow, orders: SyncQueue, ids: list[str]) -> list[str]:
    """What the runs took, once they have these; Airflow 3.1 may leave an event to the run of the next one."""
    nudges = 0

    def taken() -> list[str]:
        nonlocal nudges
        runs = airflow.until(lambda: all_done(airflow.runs("woken")), "the runs to end", 90)
        found = [job for run in runs for job in airflow.xcom("woken", run["dag_run_id"], "take")]
        if set(ids) <= set(found):
            return [job for job in found if not job.startswith("nudge")]
        if IS_3_3:
            return []
        add(orders, [f"nudge-{nudges}"])
        nudges += 1
        airflow.until(lambda: all_stored(airflow, [f"nudge-{nudges - 1}"]), "the nudge")
        return []

    return list(airflow.until(taken, "every job to be taken", 60))


def idle_runs(airflow: RealAirflow) -> list[str]:
    """Runs that were woken for nothing."""
    ids = [run["dag_run_id"] for run in airflow.runs("woken")]
    return [run_id for run_id in ids if not airflow.xcom("woken", run_id, "take")]


def all_done(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return runs if runs and all(run["state"] == "success" for run in runs) else []
