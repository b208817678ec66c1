"""Paging through a sorted set, on each kind of server: all members once, however many share a score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.blocking.read import read_scored_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 10


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def connection(redis_url: str) -> Iterator[BulkConnection]:
    with BulkConnection(redis_url, "k") as connection:
        yield connection


@pytest.fixture
def key(client: redis.Redis, queue_name: str) -> Iterator[str]:
    key = f"{{chasqui:{queue_name}}}:delayed"
    yield key
    client.delete(key)


def fill(client: redis.Redis, key: str, count: int, *, together: int) -> list[bytes]:
    """Members of which so many in a row share a score."""
    members = [b"m%05d" % n for n in range(count)]
    client.zadd(key, {member: 4_000_000_000_000 + n // together for n, member in enumerate(members)})
    return members


def read(connection: BulkConnection, key: str, low: str = "-inf", high: str = "+inf") -> list[bytes]:
    return [member for page in read_scored_pages(connection, key, low, high, PAGE) for member, _ in page]


@pytest.mark.parametrize("together", [1, 3, 10, 25, 1000])
def test_all_come_once(client: redis.Redis, connection: BulkConnection, key: str, together: int) -> None:
    assert read(connection, key) == []
    members = fill(client, key, 105, together=together)
    assert read(connection, key) == members


def test_a_range_ends_where_it_says(client: redis.Redis, connection: BulkConnection, key: str) -> None:
    members = fill(client, key, 105, together=25)
    assert read(connection, key, "-inf", "(4000000000002.0") == members[:50]
    assert read(connection, key, "4000000000002.0", "4000000000003.0") == members[50:100]
    assert read(connection, key, "4000000000004.0", "+inf") == members[100:]


def test_a_page_costs_the_same_wherever_it_is(client: redis.Redis, connection: BulkConnection, key: str) -> None:
    def skips() -> int:
        stats = client.info("commandstats")
        return int(stats.get("cmdstat_zrangebyscore", {"calls": 0})["calls"])

    fill(client, key, 500, together=500)
    before = skips()
    assert len(read(connection, key)) == 500
    assert skips() - before <= 2, (
        "only the first page is looked up by score, and nothing is skipped to get to the others"
    )


@pytest.mark.parametrize("gone", [5, 15, 20, 47])
@pytest.mark.parametrize("together", [3, 1000])
def test_what_is_promoted_meanwhile_hides_nothing(
    client: redis.Redis, connection: BulkConnection, key: str, gone: int, together: int
) -> None:
    members = fill(client, key, 100, together=together)
    pages = read_scored_pages(connection, key, "-inf", "+inf", PAGE)
    found = [member for member, _ in (*next(pages), *next(pages))]
    client.zrem(key, *members[:gone])
    found += [member for page in pages for member, _ in page]
    assert found == members[:20] + members[max(20, gone) :]
