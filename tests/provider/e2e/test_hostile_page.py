"""Sixty hostile megabytes on the dashboard's page inside Airflow's own server: Airflow goes on answering beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from chasqui_engine import SyncQueue
from tests.provider.e2e.real_airflow import RealAirflow

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

QUEUE = "e2e-hostile"
JOBS = 60
PAGES = 10
LISTS = 1024 * 1024
PAGE_WITHIN_S, HEALTH_WITHIN_S = 10.0, 5.0
"""On a machine with other work; alone they take hundredths of a second. Converting all of it took 69 s, and Airflow's
health waited 24 s."""


def test_airflow_answers_beside_a_page_of_hostile_megabytes(airflow: RealAirflow, url: str, orders: SyncQueue) -> None:
    with SyncQueue(QUEUE, redis_url=url) as queue:
        fill(queue)
        pages, healths = measure(airflow)
    assert max(pages) < PAGE_WITHIN_S, pages
    assert max(healths) < HEALTH_WITHIN_S, healths


def fill(queue: SyncQueue) -> None:
    hostile: list[list[int]] = [[]] * LISTS
    for _ in range(JOBS):
        queue.add("x", hostile)


def measure(airflow: RealAirflow) -> tuple[list[float], list[float]]:
    """How long the page's list of jobs takes, and Airflow's health beside it."""
    client = airflow.client_of("op")
    where = {"connection": "chasqui_default", "queue": QUEUE}

    def ask_for_the_page() -> None:
        rows = client.get("/chasqui/api/queue/waiting", params=where).raise_for_status().json()["rows"]
        assert len(rows) == 50
        assert all(row["payload"].startswith("[[], [], ") for row in rows)

    # A client of its own: what waits behind a page in this process is not Airflow's.
    with asking(lambda: airflow.client_of("viewer").get("/api/v2/monitor/health").raise_for_status()) as healths:
        pages = [timed(ask_for_the_page) for _ in range(PAGES)]
    return pages, healths


@contextmanager
def asking(question: Callable[[], object]) -> Iterator[list[float]]:
    """Asks every 50 ms meanwhile; how long each answer took."""
    question()
    took: list[float] = []
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.05):
            took.append(timed(question))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield took
    finally:
        done.set()
        thread.join()


def timed(question: Callable[[], object]) -> float:
    began = time.monotonic()
    question()
    return time.monotonic() - began
