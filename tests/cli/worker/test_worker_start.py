"""How long a worker takes to start: below half a second, of which most is Python and its imports."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.measure import cpu_s
from tests.support.processes import TASKS, Process

if TYPE_CHECKING:
    from pathlib import Path

    from chasqui_engine import SyncQueue

MOST_S = 0.5
TRIES = 3
# Large libraries of other parts of the product; importing any one of them takes as long as all that a worker needs.
OF_OTHERS = ("airflow", "fastapi", "numpy", "pandas", "prometheus_client", "pyarrow", "pydantic", "pyspark", "rich")


def take_to_start(url: str, folder: Path, queue: str) -> float:
    """The processor time of a worker until it is ready: beside other processes the clock would measure those."""
    with Process(url, folder, "worker", "tasks:handle", "-q", queue, "--json") as worker:
        assert worker.next_json()["event"] == "started"
        return cpu_s(worker.pid)


def test_a_worker_starts_in_under_half_a_second(valkey_url: str, tmp_path: Path, queue: SyncQueue) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    took_s = [take_to_start(valkey_url, tmp_path, queue.name) for _ in range(TRIES)]
    assert min(took_s) < MOST_S


def test_a_worker_imports_nothing_of_other_parts() -> None:
    code = "import json, sys; from chasqui_engine import Worker; Worker('q', print); print(json.dumps([*sys.modules]))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in json.loads(said.stdout)}
    assert "chasqui_engine" in packages
    assert packages.isdisjoint(OF_OTHERS)
