"""A task that runs several times at once, as Spark's speculation does.

Spark starts a copy only on another host than the first, so on one machine it never does: the copies are run by hand
here, each in a process of its own, with the same write as Spark would hand to them.
"""

from __future__ import annotations

import multiprocessing

import pyarrow as pa
import redis

from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import write_options
from chasqui_engine.spark.write.fence import WriteRun
from chasqui_engine.spark.write.partition import write_partition
from chasqui_engine.spark.write.target import Target

ROWS = 3000


def run_copy(url: str, queue: str, start: object) -> None:
    """What a copy of a task does: the same rows, the same write."""
    options = write_options({"queue": queue, "chunkSize": "50"})
    target = Target(location=QueueLocation(url=url, queue=queue), options=options, fence="chunk")
    batch = pa.RecordBatch.from_pydict({"name": ["n"] * ROWS, "payload": [str(n) for n in range(ROWS)]})
    start.wait(30)  # type: ignore[attr-defined]
    written = write_partition(target, WriteRun("one-write", "one-run"), 0, iter([batch]))
    assert written.rows == ROWS


def test_copies_of_a_task_at_the_same_time_add_each_row_once(valkey_url: str, queue_name: str) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    copies = [context.Process(target=run_copy, args=(valkey_url, queue_name, start)) for _ in range(3)]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join(60)
        assert copy.exitcode == 0
    with redis.Redis.from_url(valkey_url) as client:
        assert client.xlen(f"{{chasqui:{queue_name}}}:stream") == ROWS
