"""Handlers for the process pool: functions of a module, as they must be."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from chasqui_engine import UnrecoverableError

if TYPE_CHECKING:
    from chasqui_engine import Job


class AwkwardError(Exception):
    """Can be written by pickle, but not read back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class AwkwardUnrecoverableError(UnrecoverableError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def act(job: Job) -> Any:
    """Does what the payload says."""
    what, *rest = job.payload
    return {
        "pid": os.getpid,
        "echo": lambda: [rest, job.id, job.name, job.attempt],
        "sleep": lambda: time.sleep(rest[0]),
        "exit": lambda: os._exit(3),
        "sys.exit": lambda: sys.exit(3),
        "raise": lambda: _raise(ValueError("boom")),
        "awkward": lambda: _raise(AwkwardError(1, 2)),
        "awkward-unrecoverable": lambda: _raise(AwkwardUnrecoverableError(1, 2)),
        "unpicklable": lambda: lambda: None,
        "coroutine": _later,
    }[what]()


def _raise(error: Exception) -> None:
    raise error


async def _later() -> str:
    return "later"
