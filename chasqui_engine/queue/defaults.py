"""The options that every job of a queue gets unless its own call says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from chasqui_engine.queue.coercion import BackoffLike, DelayMsLike, as_moment, as_retry
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import JobRetryOverride, Moment

_KNOWN = ("attempts", "backoff", "delay_ms", "delay")


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """Each option by itself: a job with its own `attempts` keeps the default `backoff`."""

    attempts: int | None = None
    backoff: BackoffLike | None = None
    moment: Moment | None = None

    @staticmethod
    def of(options: Mapping[str, Any] | None) -> JobDefaults:
        """From `default_job_options` of a queue."""
        if options is None:
            return NO_DEFAULTS
        if not isinstance(options, Mapping):
            raise ConfigError(f"default_job_options must be a dict, got {type(options).__name__}")
        if unknown := [name for name in options if name not in _KNOWN]:
            raise ConfigError(
                f"default_job_options: unknown option {unknown[0]!r}; known are {', '.join(_KNOWN)}, "
                "anything else is an argument of add"
            )
        defaults = JobDefaults(
            attempts=options.get("attempts"),
            backoff=options.get("backoff"),
            moment=as_moment(options.get("delay_ms"), options.get("delay")),
        )
        defaults.retry_of(None, None)  # which checks them
        return defaults

    def retry_of(self, attempts: int | None, backoff: BackoffLike | None) -> JobRetryOverride | None:
        """The own limits of a job that was added with these."""
        return as_retry(
            self.attempts if attempts is None else attempts,
            self.backoff if backoff is None else backoff,
        )

    def moment_of(self, delay_ms: DelayMsLike | None, delay: timedelta | None) -> Moment | None:
        """When a job runs that was added with these."""
        return self.moment if delay_ms is None and delay is None else as_moment(delay_ms, delay)


NO_DEFAULTS = JobDefaults()
