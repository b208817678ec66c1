"""The exception with which a batch handler fails some of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chasqui_engine.values.errors import ConfigError, HandlerError


class BatchError(HandlerError):
    """Raise it from a batch handler when some of its jobs failed: `raise BatchError({job.id: error})`.

    Each of these jobs fails with its own error, and is retried, postponed or buried as that says; all others went well,
    with what `results` has for their ids as results.
    """

    code = "CMQ-304"

    def __init__(self, errors: Mapping[str, BaseException], results: Mapping[str, Any] | None = None) -> None:
        if not isinstance(errors, Mapping) or not all(isinstance(one, BaseException) for one in errors.values()):
            raise ConfigError("BatchError takes the errors of the jobs that failed, by job id: {job.id: error}")
        self.errors = dict(errors)
        self.results = dict(results or {})
        super().__init__(f"{len(self.errors)} job(s) of the batch failed")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.errors, self.results)
