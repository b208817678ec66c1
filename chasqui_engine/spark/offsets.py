"""Where a stream query stands, and what it has missed. Pure.

An offset is the id of the last entry that was read, and, where the server counts, how many entries had ever been
added up to it. The count makes a loss exact: what was added, is not there any more and was not deleted by name was
trimmed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chasqui_engine._redis.bulk_reading import StreamFacts
from chasqui_engine.errors import ConfigError
from chasqui_engine.spark.stream_ids import LOWEST, as_number, at_ms, before


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything up to and with `id` was read."""

    id: str
    added: int | None = None
    """Entries ever added up to `id`; None where that is not known."""

    def to_dict(self) -> dict[str, Any]:
        """As Spark keeps it in a checkpoint."""
        return {"id": self.id} if self.added is None else {"id": self.id, "added": self.added}

    @staticmethod
    def of(stored: dict[str, Any]) -> Offset:
        """From a checkpoint."""
        return Offset(str(stored["id"]), stored.get("added"))


def earliest(facts: StreamFacts) -> Offset:
    """Before the first entry that is there."""
    if facts.first_id is None:
        return Offset(facts.last_generated_id, facts.added)
    return Offset(before(facts.first_id), None if facts.added is None else facts.added - facts.length)


def latest(facts: StreamFacts) -> Offset:
    """After the last entry."""
    return Offset(facts.last_generated_id, facts.added)


def starting_id(starting_offsets: str, starting_timestamp: str | None) -> str | None:
    """The id to begin after that the options name; None for `earliest` and `latest`."""
    if starting_timestamp is not None:
        ms = _timestamp_ms(starting_timestamp)
        return before(at_ms(ms)) if ms else LOWEST
    text = starting_offsets.strip()
    if text in ("earliest", "latest"):
        return None
    if text.startswith("{"):
        try:
            return Offset.of(json.loads(text)).id
        except (ValueError, KeyError) as err:
            raise ConfigError(f'startingOffsets as JSON is {{"id": "<stream id>"}}, got {text!r}') from err
    as_number(text)
    return text


def _timestamp_ms(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as err:
        raise ConfigError(f"startingTimestamp is epoch milliseconds or ISO 8601, got {text!r}") from err
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Loss:
    """What is gone between an offset and the first entry that is left."""

    trimmed: int
    """Exactly so many were trimmed away."""
    deleted: int
    """So many went away of which some or all were deleted by name (an ack, a replay): no loss."""


def loss_since(start: Offset, facts: StreamFacts) -> Loss:
    """What became of the entries after `start` that are not there any more."""
    if start.added is None or facts.added is None:
        return Loss(0, 0)
    if facts.first_id is not None and as_number(facts.first_id) <= as_number(start.id):
        return Loss(0, 0)
    gone = max(0, facts.added - facts.length - start.added)
    deleted_after = as_number(facts.max_deleted_id) > as_number(start.id)
    return Loss(0, gone) if deleted_after else Loss(gone, 0)


def advanced(start: Offset, last_id: str, rows: int, facts: StreamFacts) -> Offset:
    """The offset `rows` entries after `start`. The count goes on only where nothing in between can be missing."""
    if as_number(last_id) >= as_number(facts.last_generated_id):
        return latest(facts)
    if start.added is None or facts.added is None or as_number(facts.max_deleted_id) > as_number(start.id):
        return Offset(last_id)
    gone = loss_since(start, facts).trimmed
    return Offset(last_id, start.added + gone + rows)


def loss_text(entity: str, queue: str, start: Offset, trimmed: int) -> str:
    """What to tell about a loss."""
    return (
        f"{trimmed} entries of the {entity} of queue {queue!r} after {start.id} were trimmed away before they were "
        "read. Raise the stream's maximum length or read more often; "
        ".option('failOnDataLoss', 'false') goes on with what is there"
    )
