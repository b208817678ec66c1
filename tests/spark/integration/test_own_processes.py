"""What takes a driver or a cluster of its own: a driver that is killed, a task that Spark runs twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.codec.envelope import decode_job
from tests.spark.integration.clusters import Program, standalone
from tests.spark.integration.read.test_batch_read import fill_events

if TYPE_CHECKING:
    import redis

ROOT = Path(__file__).parents[3]
DEADLINE_S = 600

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def driver(name: str, log: Path, environment: dict[str, str] | None = None, **settings: Any) -> Program:
    command = [sys.executable, "-m", "tests.spark.integration.driver", name, json.dumps(settings)]
    return Program(command, log, **(environment or {}))


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
    with standalone(tmp_path, cores=2, hosts=("127.0.0.1", "127.0.0.2")) as master:
        settings = {"master": master, "url": valkey_url, "queue": queue_name, "rows": 4000, "partitions": 4}
        with driver("speculate", tmp_path / "driver.log", **settings) as writing:
            writing.succeed()
    assert client.lrange(f"{queue_name}:slow", 0, -1) == [b"first"], "the first attempt never got to its end"
    done = {text.decode() for text in client.lrange(f"{queue_name}:done", 0, -1)}
    assert {"0.0", "1.1", "2.0", "3.0"} <= done, "its copy did"
    assert sorted(row["id"] for row in payloads(client, queue_name)) == list(range(4000))
    client.delete(f"{queue_name}:slow", f"{queue_name}:done")
