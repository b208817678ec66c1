"""The job that a queue returns for one that it has added."""

from __future__ import annotations

from chasqui_engine.values.job import Addition, Job, JobId, ResultWaiter


def job_of(job_id: JobId, addition: Addition, created_at_ms: int, wait: ResultWaiter) -> Job:
    """The job, which can be waited for."""
    payload, options = addition
    job = Job(
        id=job_id,
        payload=payload,
        created_at_ms=created_at_ms,
        retry=options.retry,
        name=options.name,
        _wait=wait,
    )
    if options.has_headers:
        job.headers = dict(options.headers or {})
    if options.priority:
        job.priority = options.priority
    return job
