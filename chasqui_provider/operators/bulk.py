"""The operator that puts many jobs on a queue, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from chasqui_provider.ids import task_job_id
from chasqui_provider.operators.enqueue import ChasquiOperator, add_options
from chasqui_provider.values import as_backoff, as_int, from_json

_JOB_FIELDS = frozenset({"payload", "name", "job_id", "delay", "run_at", "attempts", "backoff"})

Payloads = Iterable[Any] | Callable[..., Iterable[Any]] | Any


class ChasquiBulkEnqueueOperator(ChasquiOperator):
    """Puts many jobs on a queue; returns how many, and their ids only if asked.

    :param payloads: a list, an XCom, an iterator, or a function of the task's context that returns one of those. What
        it yields is read a chunk at a time and never held whole.
    :param items_are_jobs: each item is a mapping with `payload` and, as it likes, `name`, `job_id`, `delay`,
        `run_at`, `attempts` and `backoff`, instead of a bare payload.
    :param job_name: the name of jobs that bring none.
    :param attempts: runs of jobs that bring no number.
    :param backoff: pause between the runs of jobs that bring none.
    :param chunk_size: jobs that are read and written together.
    :param fresh_ids: ask for new ids at every run; by default they are made of dag, run, task, map index and the
        item's place, so that a task that failed halfway adds only what is missing.
    :param return_ids: put the ids into the XCom.
    """

    template_fields: Sequence[str] = (*ChasquiOperator.template_fields, "payloads", "job_name", "attempts", "backoff")
    shallow_copy_attrs: Sequence[str] = ("payloads",)

    def __init__(
        self,
        *,
        payloads: Payloads,
        items_are_jobs: bool = False,
        job_name: str = "",
        attempts: int | str | None = None,
        backoff: Any = None,
        chunk_size: int = 1000,
        fresh_ids: bool = False,
        return_ids: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if chunk_size < 1:
            raise ValueError(f"chunk_size must be from 1 up, got {chunk_size}")
        self.payloads = payloads
        self.items_are_jobs = items_are_jobs
        self.job_name = job_name
        self.attempts = attempts
        self.backoff = backoff
        self.chunk_size = chunk_size
        self.fresh_ids = fresh_ids
        self.return_ids = return_ids

    def execute(self, context: Any) -> dict[str, Any]:
        """Adds the jobs."""
        items = self.payloads(**context) if callable(self.payloads) else self.payloads
        jobs = self._jobs(items, context)
        count = chunks = 0
        ids: list[str] = []
        first = last = None
        with self.hook.get_queue(self.queue_name) as queue:
            while chunk := list(islice(jobs, self.chunk_size)):
                added = queue.add_bulk(chunk)
                count, chunks = count + len(added), chunks + 1
                first, last = first or added[0].id, added[-1].id
                if self.return_ids:
                    ids += [job.id for job in added]
        self.log.info("%d jobs are on %s", count, queue.name)
        summary = {"queue_name": queue.name, "count": count, "chunks": chunks, "first_id": first, "last_id": last}
        return {**summary, "ids": ids} if self.return_ids else summary

    def _jobs(self, items: Iterable[Any], context: Any) -> Iterator[dict[str, Any]]:
        shared = {"attempts": as_int("attempts", self.attempts), "backoff": as_backoff(self.backoff)}
        for place, item in enumerate(items):
            fields = self._fields(item)
            options = {**{key: value for key, value in shared.items() if value is not None}, **add_options(fields)}
            job_id = fields.get("job_id") or (None if self.fresh_ids else task_job_id(context, place))
            if job_id is not None:
                options["job_id"] = job_id
            yield {"name": fields.get("name") or self.job_name, "data": from_json(fields["payload"]), **options}

    def _fields(self, item: Any) -> dict[str, Any]:
        if not self.items_are_jobs:
            return {"payload": item}
        if not isinstance(item, Mapping) or "payload" not in item:
            raise ValueError("items_are_jobs: every item is a mapping with at least 'payload'")
        if unknown := item.keys() - _JOB_FIELDS:
            raise ValueError(f"unknown field {sorted(unknown)[0]!r}; known are {', '.join(sorted(_JOB_FIELDS))}")
        return dict(item)
