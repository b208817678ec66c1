"""What triggers are told to choose by."""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine import EVENT_NAMES


def as_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (given,) if isinstance(given, str) else tuple(given)


def as_event_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One event, or several, that there are."""
    names = as_names(given)
    if unknown := [name for name in names if name not in EVENT_NAMES]:
        raise ValueError(f"events: there is no {', '.join(map(repr, unknown))}; there are {', '.join(EVENT_NAMES)}")
    return names
