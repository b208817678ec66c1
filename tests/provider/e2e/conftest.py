"""One real Airflow for all tests of this folder, and the queues that it works with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chasqui_engine import SyncQueue
from tests.provider.e2e.real_airflow import ORDERS, RealAirflow, copy_dags
from tests.provider.integration.test_docs import SNIPPETS

DAGS = Path(__file__).parent / "dags"
DAG_IDS = (
    "woken",
    "deaths",
    "ticks",
    "waits",
    "meanwhile",
    "to_be_killed",
    "from_triggerer",
    "send_and_wait",
    "cleared",
    "odd_results",
)


def documented_dag(dag_id: str) -> str:
    """The code of docs/airflow that makes this DAG."""
    (code,) = [code for code in SNIPPETS.values() if f'DAG("{dag_id}"' in code]
    return code


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("queues")


@pytest.fixture(scope="session")
def url(folder: Path) -> str:
    return f"embedded://{folder}"


@pytest.fixture(scope="session")
def orders(url: str) -> Iterator[SyncQueue]:
    # Held open by the tests, so that the embedded server outlives the parts of Airflow that are killed.
    with SyncQueue(ORDERS, redis_url=url) as queue:
        yield queue


@pytest.fixture(scope="session")
def start_s() -> int:
    return int(time.time()) // 5 * 5


@pytest.fixture(scope="session")
def airflow(
    folder: Path, orders: SyncQueue, start_s: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealAirflow]:
    connection = {"conn_type": "chasqui", "extra": {"embedded": str(folder)}}
    running = RealAirflow(tmp_path_factory.mktemp("airflow") / "home", connection)
    copy_dags(DAGS, running.dags, START_S=str(start_s))
    (running.dags / "documented.py").write_text(documented_dag("send_and_wait"))
    try:
        running.start()
        for dag_id in DAG_IDS:
            running.unpause(dag_id)
        yield running
    finally:
        running.close()
