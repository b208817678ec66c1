"""Logging to stderr, as lines for people or as JSON for programs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chasqui_engine.cli.output.terminal import SafeFormatter, one_json_line

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_TEXT = "%(levelname)s %(name)s: %(message)s"
_TEXT_WITH_JOB = "%(levelname)s %(name)s%(job)s: %(message)s"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every record; the others were passed as `extra`."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a worker logs."""

    level: str = "warning"
    format: str = "text"
    job_ids: bool = False

    @property
    def level_number(self) -> int:
        """The level as `logging` numbers it."""
        return logging.getLevelNamesMapping()[self.level.upper()]

    @property
    def needs_job_ids(self) -> bool:
        """Whether records of handlers need their job's id."""
        return self.job_ids or self.format == "json"

    def formatter(self) -> logging.Formatter:
        """A formatter for this format."""
        if self.format == "json":
            return JsonFormatter()
        return JobFormatter() if self.job_ids else SafeFormatter(_TEXT)


class JobFormatter(SafeFormatter):
    """A line that names the job, if there is one."""

    def __init__(self) -> None:
        super().__init__(_TEXT_WITH_JOB)

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        job_id = getattr(record, "job_id", None)
        record.job = f" [job {job_id}]" if job_id else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the `extra` fields, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record, on one line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        given = {key: value for key, value in vars(record).items() if key not in _STANDARD and value is not None}
        line |= {key: _plain(value) for key, value in given.items() if key not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return one_json_line(line)


def _plain(value: object) -> object:
    """A value that JSON can hold, or its text."""
    return value if isinstance(value, str | int | float | bool) else str(value)


@contextlib.contextmanager
def logger_at(name: str, level: int) -> Iterator[None]:
    """Gives a logger another level meanwhile."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


def log_to_stderr(level: int) -> None:
    """Sets up logging for a command without log options."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogOptions().formatter())
    logging.basicConfig(level=level, handlers=[handler])
