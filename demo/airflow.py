"""`python -m demo.airflow`: an example DAG, run for real, on a private server and an Airflow of its own.

One task puts two hundred jobs on a queue, workers run them, sensors wait for the results without a slot, and a last
task adds them up. Airflow lives in a temporary folder and is gone afterwards, and so is the server, unless one is
given: `python -m demo.airflow URL`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chasqui_engine import Job, Worker

QUEUE = "squares"
_EXAMPLES = Path(__file__).parents[1] / "dags_examples"
_DAG = "bulk_fan_out"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _square(job: Job) -> int:
    # One is slow, so that the wait for it is deferred.
    await asyncio.sleep(0.005 if job.payload["n"] else 3)
    return int(job.payload["n"]) ** 2


@contextmanager
def _workers(url: str) -> Iterator[None]:
    stop = threading.Event()

    async def work() -> None:
        worker = Worker(QUEUE, _square, redis_url=url, store_results=True)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(stop.wait)
        await worker.close()
        await running

    thread = threading.Thread(target=asyncio.run, args=(work(),), name="demo-workers")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _prepare(home: Path, url: str) -> None:
    (home / "dags").mkdir()
    shutil.copy(_EXAMPLES / f"{_DAG}.py", home / "dags")
    os.environ.update(
        AIRFLOW_HOME=str(home),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(home / "dags"),
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{home}/airflow.db",
        AIRFLOW__LOGGING__LOGGING_LEVEL="CRITICAL",
        AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL="1",
        AIRFLOW_CONN_CHASQUI_DEFAULT=json.dumps({"conn_type": "chasqui", "extra": {"url": url}}),
        PYTHONWARNINGS="ignore",
    )
    airflow = str(Path(sys.executable).parent / "airflow")
    subprocess.run([airflow, "db", "migrate"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _run_dag(home: Path) -> dict[str, object]:
    import runpy

    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    dag = runpy.run_path(str(home / "dags" / f"{_DAG}.py"))["dag"]
    run = dag.test()
    with create_session() as session:
        wanted = (XComModel.run_id == run.run_id) & (XComModel.key == "return_value")
        rows = session.scalars(select(XComModel).where(wanted))
        values = {row.task_id: XComModel.deserialize_value(row) for row in rows}
    return {"state": str(run.state), **values}


def main(url: str | None = None) -> int:
    """Runs the demo; 0 when the DAG succeeded with the right sum."""
    started = time.monotonic()
    # The private server may still write when the folder is removed.
    with tempfile.TemporaryDirectory(prefix="chasqui-demo-", ignore_cleanup_errors=True) as home:
        url = url or f"embedded://{home}/queues"
        _say("1. an Airflow of its own (SQLite) ...")
        _prepare(Path(home), url)
        _say(f"2. DAG {_DAG}: 200 jobs in four chunks, one job slow; its wait is deferred ...")
        with _workers(url):
            outcome = _run_dag(Path(home))
    expected = sum(n * n for n in range(200))
    _say(f"3. {outcome['state']}: the results add up to {outcome.get('total')} (expected {expected})")
    _say(f"done in {time.monotonic() - started:.0f} s; see dags_examples/{_DAG}.py and docs/airflow/index.md")
    return 0 if outcome.get("total") == expected else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
