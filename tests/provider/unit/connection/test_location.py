"""A server's URL as the namespace of its queues, for lineage: nothing of a login is in it."""

from __future__ import annotations

import pytest

from chasqui_provider.connection.location import location_of


@pytest.mark.parametrize(
    ("url", "namespace"),
    [
        ("redis://h", "redis://h:6379"),
        ("redis://h:7000/0", "redis://h:7000"),
        ("redis://h:7000/3?socket_timeout=1", "redis://h:7000/3"),
        ("rediss://u:p%40@h:7000/03", "redis://h:7000/3"),
        ("redis://[::1]:1", "redis://[::1]:1"),
        ("redis+sentinel://:p@s2,s1:1/main/2?sentinel_password=a@b", "redis+sentinel://s1:1,s2:26379/main/2"),
        ("rediss+cluster://u:p@n2:2,n1", "redis+cluster://n1:6379,n2:2"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("unix://u:p@/run/redis.sock", "unix:///run/redis.sock"),
        ("embedded:///data/my%20queue", "embedded:///data/my queue"),
    ],
)
def test_a_namespace_is_where_the_server_is(url: str, namespace: str) -> None:
    place = location_of(url)
    assert place is not None
    assert place.namespace == namespace


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:p?w@h:6379/0",
        "redis://:secret",
        "redis://user:secret",
        "redis://user:sec/ret",
        "redis://",
        "http://h:1",
        "embedded://",
        "",
    ],
)
def test_a_url_that_cannot_be_read_names_no_place(url: str) -> None:
    assert location_of(url) is None


@pytest.mark.parametrize("url", ["redis://u:s3cret#x@h", "redis://u:s3/cr3t@h:1/0", "redis://u:s3@cr3t@h"])
def test_a_password_that_is_not_encoded_is_left_out(url: str) -> None:
    place = location_of(url)
    assert place is not None
    assert place.hosts in ("h:6379", "h:1")
    assert "s3" not in place.namespace
    assert "cr3t" not in place.namespace
