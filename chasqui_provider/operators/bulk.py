"""The operator that adds many jobs to a queue, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from chasqui_engine import AddOptions, ConfigError, EncodeError, Job, JobRetryOverride, RedisError, SyncQueue
from chasqui_provider.conversion import as_backoff, as_int, as_items, as_text, from_json, is_left_out
from chasqui_provider.operators.callables import keep_unrendered, value_of
from chasqui_provider.operators.enqueue import ADDED, ChasquiOperator, add_options
from chasqui_provider.operators.job_ids import task_job_id
from chasqui_provider.operators.lineage import AddsToQueue

_JOB_FIELDS = frozenset({"payload", "name", "job_id", "delay", "run_at", "attempts", "backoff", "priority"})

Payloads = Iterable[Any] | Callable[..., Iterable[Any]] | Any


class ChasquiBulkEnqueueOperator(AddsToQueue, ChasquiOperator):
    """Puts many jobs on a queue; returns the total, how many were new, and their ids if asked.

    :param payloads: a list, an XCom, an iterator, or a function that returns one of those. It is called when the task
        runs, with what it takes of the task's context by name. What it yields is read a chunk at a time and never held
        whole.
    :param items_are_jobs: each item is a mapping with `payload` and, as it likes, `name`, `job_id`, `delay`,
        `run_at`, `attempts`, `backoff` and `priority`, instead of a bare payload.
    :param job_name: the name of jobs that bring none.
    :param attempts: runs of jobs that bring no number.
    :param backoff: pause between the runs of jobs that bring none.
    :param priority: of jobs that bring none: 0 is the first.
    :param chunk_size: jobs that are read and written together.
    :param fresh_ids: ask for new ids at every try; by default they are made of dag, run, task, map index, clears and
        the item's place, so that a retry of a task that failed halfway adds only what is missing, and a clear adds all.
    :param return_ids: put the ids into the XCom.
    """

    template_fields: Sequence[str] = (
        *ChasquiOperator.template_fields,
        "payloads",
        "job_name",
        "attempts",
        "backoff",
        "priority",
    )
    shallow_copy_attrs: Sequence[str] = ("payloads",)

    def __init__(
        self,
        *,
        payloads: Payloads,
        items_are_jobs: bool = False,
        job_name: str = "",
        attempts: int | str | None = None,
        backoff: Any = None,
        priority: int | str | None = None,
        chunk_size: int = 1000,
        fresh_ids: bool = False,
        return_ids: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
        self.payloads = keep_unrendered(payloads)
        self.items_are_jobs = items_are_jobs
        self.job_name = job_name
        self.attempts = attempts
        self.backoff = backoff
        self.priority = priority
        self.chunk_size = chunk_size
        self.fresh_ids = fresh_ids
        self.return_ids = return_ids

    def execute(self, context: Any) -> dict[str, Any]:
        """Adds the jobs."""
        jobs = self._jobs(as_items(value_of(self.payloads, context, self)), context)
        count = chunks = 0
        ids: list[str] = []
        first = last = None
        with self.hook.open_queue(self.queue_name) as queue:
            while chunk := list(islice(jobs, self.chunk_size)):
                added = self._add_chunk(queue, chunk, count)
                self.note_jobs(job.id for job in added)
                count, chunks = count + len(added), chunks + 1
                first, last = first or added[0].id, added[-1].id
                if self.return_ids:
                    ids += [job.id for job in added]
        self.log.info("added %d of %d jobs to queue %s; the others were already there", queue.added, count, queue.name)
        summary = {
            "queue_name": queue.name,
            "count": count,
            ADDED: queue.added,
            "chunks": chunks,
            "first_id": first,
            "last_id": last,
        }
        return {**summary, "ids": ids} if self.return_ids else summary

    def _add_chunk(self, queue: SyncQueue, chunk: list[dict[str, Any]], before: int) -> list[Job]:
        try:
            return queue.add_bulk(chunk)
        except (ConfigError, EncodeError) as err:
            raise type(err)(f"items {before} to {before + len(chunk) - 1} of payloads: {err.args[0]}") from err
        except RedisError as err:
            rest = "adds all of them again (fresh_ids)" if self.fresh_ids else "adds only the rest"
            done = f"{before} jobs are on {queue.name}, and some of the next {len(chunk)} may be; a retry {rest}"
            raise type(err)(f"{err.args[0]}; {done}") from err

    def _jobs(self, items: Iterable[Any], context: Any) -> Iterator[dict[str, Any]]:
        shared = {
            "name": as_text("job_name", self.job_name),
            "attempts": as_int("attempts", self.attempts),
            "backoff": as_backoff(self.backoff),
            "priority": as_int("priority", self.priority),
        }
        for place, item in enumerate(items):
            default_id = None if self.fresh_ids else task_job_id(context, place)
            try:
                yield _job({**shared, **self._fields(item)}, default_id)
            except ConfigError as err:
                raise ConfigError(f"item {place} of payloads: {err.args[0]}") from err

    def _fields(self, item: Any) -> dict[str, Any]:
        if not self.items_are_jobs:
            return {"payload": item}
        if not isinstance(item, Mapping) or "payload" not in item:
            raise ConfigError("with items_are_jobs, every item is a mapping with at least 'payload'")
        if unknown := item.keys() - _JOB_FIELDS:
            raise ConfigError(f"unknown field {min(unknown, key=str)!r}; known are {', '.join(sorted(_JOB_FIELDS))}")
        return {name: value for name, value in item.items() if name == "payload" or not is_left_out(value)}


def _job(fields: dict[str, Any], default_id: str | None) -> dict[str, Any]:
    """An item for `add_bulk`; checked here, where the number of the item is known."""
    options = add_options(fields)
    name = as_text("name", fields["name"]) or ""
    job_id = as_text("job_id", fields.get("job_id")) or default_id
    retry = JobRetryOverride(options.get("attempts"), options.get("backoff"))
    AddOptions(id=job_id, retry=retry, name=name, priority=options.get("priority", 0))
    if job_id is not None:
        options["job_id"] = job_id
    return {"name": name, "data": from_json(fields["payload"]), **options}
