"""What `chasqui bulk` reads: rows, and what is wrong with those that are none."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row to be made a job."""

    number: int
    """From 1 up."""
    raw: bytes
    """What makes it this row and no other."""
    data: Any
    position: int
    """How far the reading is, in units of `Source.total`."""


class BadRowError(Exception):
    """A row that cannot be made a job. The next one may be good."""


class BrokenSourceError(BadRowError):
    """A place behind which no row can be told from another: what follows is not read."""
