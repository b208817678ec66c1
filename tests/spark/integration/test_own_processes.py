"""What takes a driver or a cluster of its own: a driver that is killed, a task that Spark runs twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.codec import decode_job
from tests.integration.connections.sentinels import free_port
from tests.spark.integration.test_batch_read import fill_events

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

ROOT = Path(__file__).parents[3]
DEADLINE_S = 600

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


class Program:
    """A process with all that it starts; none of it outlives the block."""

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        self._log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, cwd=ROOT, start_new_session=True, env={**os.environ, **environment}
            )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9, to Python, Java and all of their children at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def succeed(self) -> None:
        assert self.process.wait(DEADLINE_S) == 0, self.said()

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to come true while this runs."""
        give_up_at = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < give_up_at, self.said()
            time.sleep(0.02)


def driver(name: str, log: Path, **settings: Any) -> Program:
    return Program([sys.executable, "-m", "tests.spark.integration.driver", name, json.dumps(settings)], log)


def payloads(client: redis.Redis, queue: str) -> list[Any]:
    return [decode_job(fields[b"d"]).payload for _, fields in client.xrange(f"{{chasqui:{queue}}}:stream")]


def test_a_driver_killed_in_the_middle_of_a_batch_adds_each_row_once(
    client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", 1000)
    target = f"{queue_name}-out"
    settings: dict[str, Any] = {
        "url": valkey_url,
        "queue": queue_name,
        "target": target,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    settings["rate"] = 60

    def added() -> int:
        return int(client.xlen(f"{{chasqui:{target}}}:stream"))

    with driver("follow", tmp_path / "first.log", **settings) as first:
        first.until(lambda: added() > 100)
        first.kill()
    assert 100 < added() < 400, "killed within the first batch"
    with driver("follow", tmp_path / "second.log", **settings) as second:
        second.succeed()
    assert sorted(row["job_id"] for row in payloads(client, target)) == sorted(f"j{n}" for n in range(1000))


def test_a_task_that_spark_runs_twice_adds_each_row_once(
    client: redis.Redis, valkey_url: str, queue_name: str, tmp_path: Path
) -> None:
    """Spark copies a slow task only to another host, so this cluster has two: 127.0.0.1 and 127.0.0.2."""
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    spark_class = str(Path(home) / "bin" / "spark-class")
    master = f"spark://127.0.0.1:{free_port()}"
    common = {
        "SPARK_HOME": home,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with ExitStack() as cluster:

        def start(role: str, host: str, *args: str) -> Program:
            command = [spark_class, f"org.apache.spark.deploy.{role}", "--host", host, "--webui-port", "0", *args]
            log = tmp_path / f"{role.rpartition('.')[2]}-{host}.log"
            return cluster.enter_context(Program(command, log, SPARK_LOCAL_IP=host, **common))

        start("master.Master", "127.0.0.1", "--port", master.rpartition(":")[2])
        for host in ("127.0.0.1", "127.0.0.2"):
            start("worker.Worker", host, "--cores", "2", "--memory", "600m", master)
        settings = {"master": master, "url": valkey_url, "queue": queue_name, "rows": 4000, "partitions": 4}
        writing = cluster.enter_context(driver("speculate", tmp_path / "driver.log", **settings))
        writing.succeed()
    assert client.lrange(f"{queue_name}:slow", 0, -1) == [b"first"], "the first attempt never got to its end"
    done = {text.decode() for text in client.lrange(f"{queue_name}:done", 0, -1)}
    assert {"0.0", "1.1", "2.0", "3.0"} <= done, "its copy did"
    assert sorted(row["id"] for row in payloads(client, queue_name)) == list(range(4000))
    client.delete(f"{queue_name}:slow", f"{queue_name}:done")
