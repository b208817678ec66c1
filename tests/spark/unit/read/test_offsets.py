"""Where a query stands, and what it has missed."""

from __future__ import annotations

import pytest

from chasqui_engine._redis.blocking.read import StreamFacts
from chasqui_engine.spark.read import offsets
from chasqui_engine.spark.read.offsets import NOTHING, Loss, Offset
from chasqui_engine.values.errors import ConfigError


def facts(
    *,
    first: str | None = "5-0",
    last: str = "9-0",
    length: int = 5,
    added: int | None = 9,
    deleted: str | None = "0-0",
) -> StreamFacts:
    return StreamFacts(length=length, first_id=first, last_generated_id=last, added=added, max_deleted_id=deleted)


OLD_SERVER = facts(added=None, deleted=None)


def since(start: Offset, now: StreamFacts, *, deletes: bool = True) -> Loss:
    return offsets.loss_since(start, now, deletes=deletes)


def test_earliest_counts_what_went_before() -> None:
    assert offsets.earliest(facts()) == Offset("4-18446744073709551615", 4)
    assert offsets.earliest(facts(first=None, length=0)) == Offset("9-0", 9)
    assert offsets.latest(facts()) == Offset("9-0", 9)


def test_a_loss_is_exact() -> None:
    assert since(Offset("2-0", 2), facts()) == Loss(2, 2)
    assert since(Offset("4-0", 4), facts()) == NOTHING
    assert since(Offset("7-0", 7), facts()) == NOTHING
    assert since(Offset("2-0", 2), facts(first=None, length=0)) == Loss(7, 7)


def test_what_was_deleted_by_name_is_no_certain_loss() -> None:
    found = since(Offset("2-0", 2), facts(deleted="4-0"))
    assert found == Loss(0, 2)
    assert not found.certain
    assert since(Offset("2-0", 2), facts(deleted="1-0")) == Loss(2, 2)
    assert since(Offset("6-0", 6), facts(deleted="8-0", length=4)) == NOTHING, "no trim has come this far"


def test_a_server_that_does_not_count_loses_nothing_that_can_be_told() -> None:
    for start, now in ((Offset("2-0"), facts()), (Offset("2-0", 2), OLD_SERVER)):
        found = since(start, now)
        assert not found.certain
        assert found.most is None


def test_a_stream_that_was_created_again_is_a_loss() -> None:
    assert since(Offset("2-0", 20), facts(added=5)) == Loss(0, None, recreated=True)
    assert since(Offset("2-0", 20), facts(added=23)) == Loss(0, None, recreated=True), (
        "more entries than were added after it"
    )
    assert since(Offset("2-0", 20), facts(added=0, length=0, first=None, last="0-0")).certain


def past(entry_id: str, rows: int | None, now: StreamFacts, begin: Offset | None = None, *, deletes: bool) -> Loss:
    return offsets.loss_past(begin or Offset("0-5", 0), entry_id, rows, now, deletes=deletes)


def test_an_entry_that_went_while_a_batch_was_read_is_a_loss_if_a_trim_took_it() -> None:
    assert past("2-0", 2, facts(), deletes=False) == Loss(2, 2), "four are gone, two of them were read"
    assert past("2-0", None, facts(), deletes=False) == Loss(1, 4)
    assert past("2-0", 2, OLD_SERVER, deletes=False) == Loss(1, None)
    assert past("2-0", 2, facts(first="1-0"), deletes=True) == NOTHING
    assert past("2-0", 2, facts(deleted="2-0"), deletes=True) == Loss(0, 4)
    assert past("2-0", 2, OLD_SERVER, deletes=True) == Loss(0, None)
    assert past("2-0", 2, facts(added=3), Offset("0-5", 9), deletes=False).recreated


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Loss(3, 3), "3 entries of the events of queue 'q' after 1-0 were trimmed"),
        (Loss(1, 7), "at least 1 and at most 7 entries"),
        (Loss(1, None), "at least 1 entries"),
        (Loss(0, 7), "up to 7 entries of the events of queue 'q' after 1-0 are gone and were not read"),
        (Loss(0, None, recreated=True), "were deleted and created again after 1-0"),
    ],
)
def test_a_loss_is_told_as_far_as_it_is_known(loss: Loss, words: str) -> None:
    assert words in offsets.describe_loss("events", "q", "1-0", loss)


def test_an_advance_keeps_the_count_where_it_is_certain() -> None:
    assert offsets.advance(Offset("4-9", 4), "6-0", 2, facts()) == Offset("6-0", 6)
    assert offsets.advance(Offset("4-9", 4), "9-0", 5, facts()) == Offset("9-0", 9)
    assert offsets.advance(Offset("4-9", 4), "6-0", 2, facts(deleted="5-5")) == Offset("6-0")
    # Two were trimmed: the entries read come after them.
    assert offsets.advance(Offset("2-0", 2), "6-0", 2, facts()) == Offset("6-0", 6)
    assert offsets.advance(Offset("2-0"), "6-0", 2, facts(deleted="3-0")) == Offset("6-0", 6), (
        "none went after the first"
    )
    assert offsets.advance(Offset("6-0", 6), "8-0", 2, facts()) == Offset("8-0", 8)
    assert offsets.advance(Offset("6-0", 6), "8-0", 2, OLD_SERVER) == Offset("8-0")


@pytest.mark.parametrize(
    ("text", "timestamp", "expected"),
    [
        ("earliest", None, None),
        ("latest", None, None),
        ("7-3", None, "7-3"),
        ('{"id": "7-3", "added": 4}', None, "7-3"),
        ("earliest", "1700000000000", "1699999999999-18446744073709551615"),
        ("earliest", "2023-11-14T22:13:20Z", "1699999999999-18446744073709551615"),
        ("earliest", "2023-11-14T22:13:20", "1699999999999-18446744073709551615"),
        ("earliest", "0", "0-0"),
    ],
)
def test_the_start_that_options_name(text: str, timestamp: str | None, expected: str | None) -> None:
    assert offsets.starting_id(text, timestamp) == expected


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("yesterday", None),
        ("Earliest", None),
        ("5-x", None),
        ("[1]", None),
        ("{}", None),
        ("{oops", None),
        ('{"id": null}', None),
        ('{"id": 5}', None),
        ('{"id": "zz"}', None),
        ("99999999999999999999999-0", None),
        ("earliest", "noon"),
        ("earliest", "-5"),
        ("earliest", "1960-01-01"),
        ("earliest", "99999999999999999999999"),
    ],
)
def test_a_start_that_says_nothing_is_refused(text: str, timestamp: str | None) -> None:
    with pytest.raises(ConfigError, match="startingTimestamp is" if timestamp else "startingOffsets"):
        offsets.starting_id(text, timestamp)


def test_offsets_survive_a_checkpoint() -> None:
    for offset in (Offset("5-1", 7), Offset("5-1"), Offset("5-1", 7, ("2-0", "4-1"))):
        assert Offset.of(offset.to_dict()) == offset


def test_the_lag_is_in_entries_where_the_server_counts() -> None:
    assert offsets.lag(Offset("1000-0", 7), Offset("4000-1", 12)) == {"behindMs": 3000, "behindRows": 5}
    assert offsets.lag(Offset("1000-0"), Offset("4000-1", 12)) == {"behindMs": 3000}
    assert offsets.lag(Offset("4000-1", 12), Offset("4000-1", 12)) == {"behindMs": 0, "behindRows": 0}
