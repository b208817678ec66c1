"""Offsets of a stream query, and the entries that it lost. Pure.

An offset is the id of the last entry that was read, and, where the server counts, how many entries had ever been
added up to it. With the count a loss is exact: what was added, is gone and was not deleted by id was trimmed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chasqui_engine._redis.blocking.read import StreamFacts
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.stream_ids import LOWEST, as_number, at_ms, before, ms_of


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything up to and with `id` was read."""

    id: str
    added: int | None = None
    """Entries ever added up to `id`; None where that is not known."""
    cuts: tuple[str, ...] = ()
    """Where the batch that ends here is split into partitions. Kept so that it is split the same way when read again,
    on any machine."""

    def to_dict(self) -> dict[str, Any]:
        """The form in which Spark keeps it in a checkpoint."""
        count = {} if self.added is None else {"added": self.added}
        return {"id": self.id, **count, **({"cuts": list(self.cuts)} if self.cuts else {})}

    @staticmethod
    def of(stored: dict[str, Any]) -> Offset:
        """From a checkpoint."""
        return Offset(str(stored["id"]), stored.get("added"), tuple(stored.get("cuts", ())))


def earliest(facts: StreamFacts) -> Offset:
    """The offset before the first existing entry."""
    if facts.first_id is None:
        return Offset(facts.last_generated_id, facts.added)
    return Offset(before(facts.first_id), None if facts.added is None else facts.added - facts.length)


def latest(facts: StreamFacts) -> Offset:
    """The offset after the last entry."""
    return Offset(facts.last_generated_id, facts.added)


def lag(reached: Offset, end: Offset) -> dict[str, int]:
    """How far one offset is behind another, in time and, where the server counts, in entries."""
    behind = {"behindMs": max(0, ms_of(end.id) - ms_of(reached.id))}
    if reached.added is not None and end.added is not None:
        behind["behindRows"] = max(0, end.added - reached.added)
    return behind


def starting_id(starting_offsets: str, starting_timestamp: str | None) -> str | None:
    """The id to begin after, from the options; None for `earliest` and `latest`."""
    if starting_timestamp is not None:
        ms = timestamp_ms(starting_timestamp)
        return before(at_ms(ms)) if ms else LOWEST
    text = starting_offsets.strip()
    if text in ("earliest", "latest"):
        return None
    if text.startswith("{"):
        try:
            named = json.loads(text)["id"]
            as_number(named)
        except (ValueError, KeyError, AttributeError) as err:
            raise ConfigError(f'startingOffsets as JSON is {{"id": "<milliseconds>-<number>"}}, got {text!r}') from err
        return str(named)
    try:
        as_number(text)
    except ConfigError as err:
        raise ConfigError(f"startingOffsets is earliest, latest, an id or JSON; {err.args[0]}") from err
    return text


def timestamp_ms(text: str, name: str = "startingTimestamp") -> int:
    """An option that is a time, in milliseconds since 1970."""
    try:
        moment = None if text.strip().isdecimal() else datetime.fromisoformat(text)
        ms = int(text) if moment is None else _epoch_ms(moment)
        as_number(at_ms(ms))
    except (ValueError, OverflowError) as err:
        raise ConfigError(f"{name} is epoch milliseconds or ISO 8601, from 1970 on, got {text!r}") from err
    return ms


def _epoch_ms(moment: datetime) -> int:
    """A moment without a time zone is one of UTC."""
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Loss:
    """Entries after an offset that are gone and were not read."""

    least: int
    """At least this many were certainly trimmed."""
    most: int | None
    """At most this many. None if unknown."""
    recreated: bool = False
    """The stream was deleted and created again."""

    @property
    def certain(self) -> bool:
        """Whether anything is lost; otherwise all missing entries may have been deleted by id, which is no loss."""
        return self.recreated or self.least > 0


NOTHING = Loss(0, 0)
_UNKNOWN = Loss(0, None)


def loss_since(start: Offset, facts: StreamFacts, *, deletes: bool) -> Loss:
    """The loss after `start`. `deletes`: entries of this kind are deleted by id, for example by an ack."""
    if facts.first_id is not None and as_number(facts.first_id) <= as_number(start.id):
        return NOTHING  # a trim begins at the front, and has not got this far
    if start.added is None or facts.added is None:
        return _UNKNOWN
    gone = facts.added - facts.length - start.added
    if gone < 0:  # more is there than was added since
        return Loss(0, None, recreated=True)
    return Loss(0, gone) if _deleted_after(start.id, facts, deletes) else Loss(gone, gone)


def loss_past(begin: Offset, entry_id: str, rows: int | None, facts: StreamFacts, *, deletes: bool) -> Loss:
    """As `loss_since`, for an entry that was there and is not; `rows` after `begin` were read before it went."""
    if facts.first_id is not None and as_number(facts.first_id) <= as_number(entry_id):
        return NOTHING
    whole = loss_since(begin, facts, deletes=deletes)
    if whole.recreated:
        return whole
    if _deleted_after(before(entry_id), facts, deletes):
        return Loss(0, whole.most)
    if rows is not None and whole.most is not None and whole.least == whole.most:
        return Loss(whole.most - rows, whole.most - rows)
    return Loss(1, whole.most)


def _deleted_after(entry_id: str, facts: StreamFacts, deletes: bool) -> bool:
    if facts.max_deleted_id is None:
        return deletes
    return as_number(facts.max_deleted_id) > as_number(entry_id)


def advance(start: Offset, last_id: str, rows: int, facts: StreamFacts) -> Offset:
    """The offset `rows` entries after `start`. It has a count only where nothing in between can be missing."""
    if as_number(last_id) >= as_number(facts.last_generated_id):
        return latest(facts)
    if facts.added is None or facts.first_id is None or facts.max_deleted_id is None:
        return Offset(last_id)
    first, deleted = as_number(facts.first_id), as_number(facts.max_deleted_id)
    if first > as_number(start.id) and deleted < first:
        return Offset(last_id, facts.added - facts.length + rows)
    if start.added is None or deleted > as_number(start.id):
        return Offset(last_id)
    return Offset(last_id, start.added + rows)


def describe_loss(entity: str, queue: str, after_id: str, loss: Loss) -> str:
    """A loss as a sentence, with how to continue."""
    what = f"the {entity} of queue {queue!r}"
    way_on = ".option('failOnDataLoss', 'false') continues with the entries that are left"
    if loss.recreated:
        return (
            f"{what} were deleted and created again after {after_id} was read. How many entries are lost "
            f"is unknown; {way_on}"
        )
    if not loss.certain:
        return (
            f"up to {loss.most} entries of {what} after {after_id} are gone and were not read. Some or all were "
            "deleted by id (by an ack or a replay), which is no loss; whether others were trimmed is unknown"
        )
    if loss.least == loss.most:
        number = f"{loss.least}"
    else:
        number = f"at least {loss.least}" + ("" if loss.most is None else f" and at most {loss.most}")
    return (
        f"{number} entries of {what} after {after_id} were trimmed before they were read. Raise the stream's "
        f"maximum length or read more often; {way_on}"
    )
