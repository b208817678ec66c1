"""Where a query stands, and what it has missed."""

from __future__ import annotations

import pytest

from chasqui_engine._redis.bulk_reading import StreamFacts
from chasqui_engine.errors import ConfigError
from chasqui_engine.spark import offsets
from chasqui_engine.spark.offsets import Loss, Offset


def facts(
    *, first: str | None = "5-0", last: str = "9-0", length: int = 5, added: int | None = 9, deleted: str = "0-0"
) -> StreamFacts:
    return StreamFacts(length=length, first_id=first, last_generated_id=last, added=added, max_deleted_id=deleted)


def test_earliest_counts_what_went_before() -> None:
    assert offsets.earliest(facts()) == Offset("4-18446744073709551615", 4)
    assert offsets.earliest(facts(first=None, length=0)) == Offset("9-0", 9)
    assert offsets.latest(facts()) == Offset("9-0", 9)


def test_a_loss_is_exact() -> None:
    assert offsets.loss_since(Offset("2-0", 2), facts()) == Loss(2, 0)
    assert offsets.loss_since(Offset("4-0", 4), facts()) == Loss(0, 0)
    assert offsets.loss_since(Offset("7-0", 7), facts()) == Loss(0, 0)
    assert offsets.loss_since(Offset("2-0", 2), facts(first=None, length=0)) == Loss(7, 0)


def test_what_was_deleted_by_name_is_no_loss() -> None:
    assert offsets.loss_since(Offset("2-0", 2), facts(deleted="4-0")) == Loss(0, 2)
    assert offsets.loss_since(Offset("2-0", 2), facts(deleted="1-0")) == Loss(2, 0)


def test_a_server_that_does_not_count_loses_nothing_that_can_be_told() -> None:
    assert offsets.loss_since(Offset("2-0", None), facts()) == Loss(0, 0)
    assert offsets.loss_since(Offset("2-0", 2), facts(added=None)) == Loss(0, 0)


def test_an_advance_keeps_the_count_where_it_is_certain() -> None:
    assert offsets.advanced(Offset("4-9", 4), "6-0", 2, facts()) == Offset("6-0", 6)
    assert offsets.advanced(Offset("4-9", 4), "9-0", 5, facts()) == Offset("9-0", 9)
    assert offsets.advanced(Offset("4-9", 4), "6-0", 2, facts(deleted="5-5")) == Offset("6-0")
    # Two were trimmed away: the entries read come after them.
    assert offsets.advanced(Offset("2-0", 2), "6-0", 2, facts()) == Offset("6-0", 6)


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
    ("text", "timestamp"), [("yesterday", None), ("{}", None), ("{oops", None), ("earliest", "noon")]
)
def test_a_start_that_says_nothing_is_refused(text: str, timestamp: str | None) -> None:
    with pytest.raises(ConfigError):
        offsets.starting_id(text, timestamp)


def test_offsets_survive_a_checkpoint() -> None:
    for offset in (Offset("5-1", 7), Offset("5-1")):
        assert Offset.of(offset.to_dict()) == offset
