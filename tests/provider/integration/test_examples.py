"""Every example, and the DAG of the README, runs: `dag.test()` with real servers and workers."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chasqui_engine import Job, SyncQueue
from chasqui_provider.task_functions import TaskFunctions
from tests.provider.helpers import worker_thread
from tests.servers import ServerProcess
from tests.support.page_blocks import blocks_of

# A whole run goes through parts of Airflow that warn of their own libraries.
pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("airflow_tables"),
]

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "dags_examples"


@pytest.fixture
def server(connect: Any) -> Iterator[ServerProcess]:
    with ServerProcess() as one:
        connect(url=one.url)
        yield one


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def results(run: Any) -> dict[str, Any]:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id, XComModel.key == "return_value"))
        return {row.task_id: XComModel.deserialize_value(row) for row in rows}


def run(name: str) -> tuple[Any, dict[str, Any]]:
    finished = load(name).dag.test()
    return finished, results(finished)


async def handle(job: Job) -> Any:
    match job.name:
        case "render":
            return {"pages": 3, "pdf": b"%PDF", "customer": job.payload["customer"]}
        case "square":
            return job.payload["n"] ** 2
    raise AssertionError(f"no such job: {job.name}")


def test_enqueue_and_wait(server: ServerProcess) -> None:
    with worker_thread(server.url, "invoices", handle):
        finished, values = run("enqueue_and_wait")
    assert finished.state == "success"
    assert values["archive"] == "stored 3 pages"


def test_bulk_fan_out(server: ServerProcess) -> None:
    with worker_thread(server.url, "squares", handle):
        finished, values = run("bulk_fan_out")
    assert finished.state == "success"
    assert values["squares"]["count"] == 200
    assert values["total"] == sum(n * n for n in range(200))


def test_woken_by_jobs(server: ServerProcess) -> None:
    finished, values = run("woken_by_jobs")
    assert finished.state == "success"
    assert values["handle"] == [], "nobody woke it here; tests/provider/e2e shows that"


def test_on_dead_letters(server: ServerProcess) -> None:
    finished, values = run("on_dead_letters")
    assert finished.state == "success"
    assert values["replay"] == 0


def test_repeatable_schedule(server: ServerProcess) -> None:
    finished, values = run("repeatable_schedule")
    assert finished.state == "success"
    with SyncQueue("reports", redis_url=server.url) as queue:
        (spec,) = queue.get_repeatable_jobs()
    assert spec.key == values["in_the_queue_as_well"] == "report::cron:0 9 * * 1-5:America/New_York"


def test_task_on_worker(server: ServerProcess) -> None:
    functions = TaskFunctions()

    @functions.register
    def word_count(words: str) -> int:
        return len(words.split())

    with worker_thread(server.url, "tasks", functions.handler):
        finished, values = run("task_on_worker")
    assert finished.state == "success"
    assert values["show"] == "3 words"


@pytest.mark.timeout(300)
def test_the_dag_of_the_readme(server: ServerProcess, tmp_path: Path) -> None:
    async def render(job: Job) -> dict[str, str]:
        return {"rendered": job.data["day"]}

    [code] = [block.code for block in blocks_of(ROOT / "README.md") if "with DAG(" in block.code]
    (tmp_path / "readme.py").write_text(code, encoding="utf-8")
    command = [Path(sys.executable).parent / "airflow", "dags", "test", "invoices", "2026-11-19"]
    with worker_thread(server.url, "invoices", render):
        done = subprocess.run(
            command,
            env={**os.environ, "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=250,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    assert "{'rendered': '2026-11-19'}" in done.stdout
