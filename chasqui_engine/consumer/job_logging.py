"""Which job a log record belongs to: the id of the job whose handler wrote it."""

from __future__ import annotations

import logging
from contextvars import ContextVar

running_job_id: ContextVar[str | None] = ContextVar("chasqui_running_job_id", default=None)
"""Set by a worker with `log_job_ids=True`, in the context of its handler (a thread gets a copy)."""


class JobIdFilter(logging.Filter):
    """Gives each record a `job_id`: that of the running job, None outside of one. Add it to a logging handler.

    Records that have a `job_id` keep it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the id; every record passes."""
        if not hasattr(record, "job_id"):
            record.job_id = running_job_id.get()
        return True
