"""The commit of a run, on the driver: only here is it known how many tasks there were.

Every chunk that was added must be a chunk of this run too. If it is, what this run found missing is missing, and is
added now. If one is not, the rows are cut into other chunks than before, and some would be added twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine._redis.blocking import fence, write
from chasqui_engine.spark.write.fence import WriteRun
from chasqui_engine.spark.write.partition import Written
from chasqui_engine.spark.write.target import ChunkSender, NotRepeatableError, Target


def finish_run(target: Target, run: WriteRun, tasks: Sequence[Written]) -> None:
    """Adds the chunks that this run put aside; raises `NotRepeatableError` if its chunks are not those of before."""
    sender = ChunkSender(target, run.write_id)
    try:
        others = fence.list_written_chunks(sender.connection, sender.keys, run.write_id)
        for task in tasks:
            others -= {(task.partition, number) for number in range(task.chunks)}
        if others:
            raise _not_repeatable(sender, run, tasks, max(partition for partition, _ in others))
        _add_waiting(sender, run, tasks)
        fence.end_write(sender.connection, sender.keys, run.write_id, len(tasks))
    finally:
        fence.drop_waiting(sender.connection, sender.keys, run.write_id, run.id)
        sender.close()


def abandon_run(target: Target, run: WriteRun, partitions: int) -> None:
    """Deletes what tasks put aside, after one has failed for good. What they added stays."""
    sender = ChunkSender(target, run.write_id)
    try:
        fence.drop_waiting(sender.connection, sender.keys, run.write_id, run.id)
        fence.end_write(sender.connection, sender.keys, run.write_id, partitions)
    finally:
        sender.close()


def _add_waiting(sender: ChunkSender, run: WriteRun, tasks: Sequence[Written]) -> None:
    rows = {name: count for task in tasks for name, count in task.aside.items()}
    found = 0
    for name, kept in fence.waiting(sender.connection, sender.keys, run.write_id, run.id, rows):
        sender.wait_for_turn(rows[name])
        sender.pipe.submit_later(kept)
        if sender.reply() == write.WRITTEN_OTHERWISE:
            raise NotRepeatableError(f"chunk {name} of write {run.write_id} was added by another run at the same time")
        found += 1
    if found < len(rows):
        raise NotRepeatableError(
            f"{len(rows) - found} chunks of write {run.write_id} that were put aside are gone: run it again"
        )


def _not_repeatable(sender: ChunkSender, run: WriteRun, tasks: Sequence[Written], partition: int) -> NotRepeatableError:
    begun = fence.how_begun(sender.connection, sender.keys, run.write_id)
    before = f"{begun.partitions}" if begun.partitions is not None else f"at least {partition + 1}"
    added = "nothing was added by this run" if begun.run != run.id else "some rows may be in the queue twice"
    return NotRepeatableError(
        f"write {run.write_id} of queue {sender.keys.queue!r} was begun with {before} partitions and this run has "
        f"{len(tasks)}, or has fewer rows in one of them; {added}. Run it with as many partitions as before (the same "
        "cores, minPartitions or spark.sql.shuffle.partitions). With an id column, rows are recognised by it "
        "however they are partitioned"
    )
