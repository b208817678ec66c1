"""A triggerer that is killed again and again: no job is handled twice, and no DAG is woken for nothing."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from chasqui_engine import SyncQueue
from tests.provider.e2e.orders import add, all_stored, all_taken, idle_runs, not_acked
from tests.provider.e2e.real_airflow import IS_3_3, RealAirflow

KILLS = 10
PAUSE_S = 1.0
"""Between two jobs: each makes an event and a run of its own."""


def add_for_a_while(orders: SyncQueue, ids: list[str], seconds: float) -> None:
    """One job after the other."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        ids.append(f"order-{len(ids)}")
        add(orders, ids[-1:])
        time.sleep(PAUSE_S)


def kill_at_work(airflow: RealAirflow, name: str, orders: SyncQueue, ids: list[str]) -> None:
    airflow.until_watching(name)
    add_for_a_while(orders, ids, random.uniform(5, 10))
    airflow.kill(name)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("default")
def test_each_job_is_handled_once(airflow: RealAirflow, orders: SyncQueue, folder: Path) -> None:
    ids: list[str] = []
    name = "triggerer"
    for kill in range(KILLS):
        kill_at_work(airflow, name, orders, ids)
        name = f"triggerer-{kill}"
        airflow.start_part("triggerer", name)
    airflow.until(lambda: all_stored(airflow, ids), "all jobs", 180)
    airflow.until(lambda: not not_acked(folder), "all acks", 180)
    taken = all_taken(airflow, orders, ids)
    told = Counter(airflow.woken_by())
    runs, idle = airflow.runs("woken"), idle_runs(airflow)
    again = told.total() - len(told)
    print(f"\n{KILLS} kills, {len(ids)} jobs, {again} told again; {len(runs)} runs, {len(idle)} without jobs")
    assert Counter(taken) == Counter(ids)
    assert len(idle) <= again
    if IS_3_3:
        assert not again
