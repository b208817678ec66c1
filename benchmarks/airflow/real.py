"""A real Airflow with one DAG, and a server for its queues, for as long as something is measured."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from chasqui_engine import SyncQueue
from tests.provider.e2e.real_airflow import RealAirflow

# What the tests' Airflow has shorter, as it is by default.
AS_BY_DEFAULT = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "5",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "5",
}


@contextmanager
def airflow_with(
    dag: str, options: Mapping[str, str] | None = None, url: str | None = None
) -> Iterator[tuple[RealAirflow, str]]:
    """Airflow, which knows the DAG `bench` that this code makes, and the address of the server of its connection."""
    with tempfile.TemporaryDirectory(prefix="chasqui-bench-") as folder:
        queues = Path(folder) / "queues"
        place = {"url": url} if url else {"embedded": str(queues)}
        connection = {"conn_type": "chasqui", "extra": place}
        url = url or f"embedded://{queues}"
        airflow = RealAirflow(Path(folder) / "home", connection, options)
        (airflow.dags / "bench.py").write_text(dag)
        # Held open, so that the server is not a child of one of Airflow's parts.
        with SyncQueue("bench", redis_url=url):
            try:
                airflow.start()
                airflow.until(lambda: airflow.client.get("/api/v2/dags/bench").status_code == 200, "the DAG", 90)
                yield airflow, url
            finally:
                airflow.close()
