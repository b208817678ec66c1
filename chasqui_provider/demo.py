"""`python -m chasqui_provider.demo`: an example DAG, run for real, on a private server and an Airflow of its own.

One task puts two hundred jobs on a queue, workers run them, sensors wait for the results without a slot, and a last
task adds them up. Everything lives in a temporary folder and is gone afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chasqui_engine import Job, Worker

_EXAMPLES = Path(__file__).parents[1] / "dags_examples"
_DAG = "bulk_fan_out"
_QUEUE = "squares"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _square(job: Job) -> int:
    await asyncio.sleep(0.005)
    return int(job.payload["n"]) ** 2


@contextmanager
def _workers(url: str) -> Iterator[None]:
    stop = threading.Event()

    async def work() -> None:
        worker = Worker(_QUEUE, _square, redis_url=url, store_results=True)
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


def _prepare(home: Path) -> str:
    folder = home / "queues"
    os.environ.update(
        AIRFLOW_HOME=str(home),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(_EXAMPLES),
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{home}/airflow.db",
        AIRFLOW__LOGGING__LOGGING_LEVEL="ERROR",
        AIRFLOW_CONN_CHASQUI_DEFAULT=json.dumps({"conn_type": "chasqui", "extra": {"embedded": str(folder)}}),
        PYTHONWARNINGS="ignore",
    )
    airflow = str(Path(sys.executable).parent / "airflow")
    subprocess.run([airflow, "db", "migrate"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return f"embedded://{folder}"


def _run_dag() -> dict[str, object]:
    import runpy

    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    dag = runpy.run_path(str(_EXAMPLES / f"{_DAG}.py"))["dag"]
    run = dag.test()
    with create_session() as session:
        wanted = (XComModel.run_id == run.run_id) & (XComModel.key == "return_value")
        rows = session.scalars(select(XComModel).where(wanted))
        values = {row.task_id: XComModel.deserialize_value(row) for row in rows}
    return {"state": str(run.state), **values}


def main() -> int:
    """Runs the demo; 0 when the DAG succeeded with the right sum."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chasqui-demo-") as home:
        _say("1. an Airflow of its own (SQLite) and a private server ...")
        url = _prepare(Path(home))
        _say(f"2. DAG {_DAG}: 200 jobs in four chunks, workers beside it, deferrable waits ...")
        with _workers(url):
            told = _run_dag()
    expected = sum(n * n for n in range(200))
    _say(f"3. {told['state']}: the results add up to {told.get('total')} (expected {expected})")
    _say(f"done in {time.monotonic() - started:.0f} s; the DAG is dags_examples/{_DAG}.py, the how-to docs/airflow.md")
    return 0 if told.get("total") == expected else 1


if __name__ == "__main__":
    sys.exit(main())
