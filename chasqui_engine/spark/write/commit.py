"""The end of a run, on the driver: only here is it known how many tasks there were.

The chunks that are in must all be chunks of this run too. If they are, what it found missing is missing, and is added
now. If one is not, the rows fall into other chunks than they did, and some would be added a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine._redis.blocking import fence, write
from chasqui_engine.spark.write.fence import WriteRun
from chasqui_engine.spark.write.partition import Written
from chasqui_engine.spark.write.target import ChunkSender, NotRepeatableError, Target


def end_run(target: Target, run: WriteRun, tasks: Sequence[Written]) -> None:
    """Adds what this run found missing, if it is; raises `NotRepeatableError` if that cannot be."""
    way = ChunkSender(target, run.write_id)
    try:
        in_the_way = fence.chunks_written(way.connection, way.keys, run.write_id)
        for task in tasks:
            in_the_way -= {(task.partition, number) for number in range(task.chunks)}
        if in_the_way:
            raise _elsewhere(way, run, tasks, max(partition for partition, _ in in_the_way))
        _add_what_waits(way, run, tasks)
        fence.ended(way.connection, way.keys, run.write_id, len(tasks))
    finally:
        fence.drop_waiting(way.connection, way.keys, run.write_id, run.id)
        way.close()


def give_up_run(target: Target, run: WriteRun, partitions: int) -> None:
    """A task failed for good. What it and others added stays; what they put aside does not."""
    way = ChunkSender(target, run.write_id)
    try:
        fence.drop_waiting(way.connection, way.keys, run.write_id, run.id)
        fence.ended(way.connection, way.keys, run.write_id, partitions)
    finally:
        way.close()


def _add_what_waits(way: ChunkSender, run: WriteRun, tasks: Sequence[Written]) -> None:
    rows = {place: count for task in tasks for place, count in task.aside.items()}
    found = 0
    for place, kept in fence.waiting(way.connection, way.keys, run.write_id, run.id, rows):
        way.wait_for_turn(rows[place])
        way.pipe.submit_later(kept)
        if way.reply() == write.WRITTEN_OTHERWISE:
            raise NotRepeatableError(f"chunk {place} of write {run.write_id} was added by another run at the same time")
        found += 1
    if found < len(rows):
        raise NotRepeatableError(
            f"{len(rows) - found} chunks of write {run.write_id} that were put aside are gone: run it again"
        )


def _elsewhere(way: ChunkSender, run: WriteRun, tasks: Sequence[Written], partition: int) -> NotRepeatableError:
    begun = fence.how_begun(way.connection, way.keys, run.write_id)
    before = f"{begun.partitions}" if begun.partitions is not None else f"at least {partition + 1}"
    added = "nothing was added by this run" if begun.run != run.id else "some rows may be in the queue twice"
    return NotRepeatableError(
        f"write {run.write_id} of queue {way.keys.queue!r} was begun with {before} partitions and this run has "
        f"{len(tasks)}, or has fewer rows in one of them; {added}. Run it with as many partitions as before (the same "
        "cores, minPartitions or spark.sql.shuffle.partitions). Rows with an id column are known by it from the first "
        "run on, however they are partitioned"
    )
