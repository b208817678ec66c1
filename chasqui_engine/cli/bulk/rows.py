"""What `chasqui bulk` reads: rows, and errors in their place."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row, which becomes a job."""

    number: int
    """From 1 up."""
    raw: bytes
    """Its bytes, which identify it."""
    data: Any
    position: int
    """How much has been read, in units of `Source.total`."""


class BadRowError(Exception):
    """A row that cannot become a job. The next one may be good."""


class BrokenSourceError(BadRowError):
    """An error after which rows cannot be told apart: the rest is not read."""
