"""Filters by which triggers select jobs and events."""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine.events import EVENT_NAMES


def as_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (given,) if isinstance(given, str) else tuple(given)


def as_event_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One event name or several, each of them known."""
    names = as_names(given)
    if unknown := [name for name in names if name not in EVENT_NAMES]:
        raise ValueError(f"unknown events: {', '.join(map(repr, unknown))}; known are {', '.join(EVENT_NAMES)}")
    return names
