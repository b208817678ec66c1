"""A handler that a process of its own can import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chasqui_engine import Job


def plain(job: Job) -> int:
    if job.name == "fail":
        raise ValueError("no")
    return int(job.payload)
