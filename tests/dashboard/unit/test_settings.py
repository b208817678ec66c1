"""Settings, and who gets in with a token."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui_engine import ConfigError
from chasqui_engine.dashboard import DashboardSettings, FixedConnections, TokenGuard


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("payloads", "some"),
        ("group", ""),
        ("group", "{x}"),
        ("page_size", 0),
        ("page_size", 501),
        ("page_size", True),
        ("live_interval_s", 0),
        ("live_interval_s", "1"),
        ("most_queues", 0),
        ("alarm_after_s", 0),
        ("most_watchers", -1),
    ],
)
def test_a_setting_out_of_range_is_named(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        DashboardSettings(**{field: value})


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        DashboardSettings().payloads = "hide"  # type: ignore[misc]


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "a space is in it!", "ümlautümlautümlaut", "line\nline\nline\nl"]
)
def test_a_token_that_could_be_guessed_or_mangled_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        TokenGuard(token)


async def test_fixed_connections() -> None:
    connections = FixedConnections({"b": "redis://b", "a": "redis://a"})
    assert await connections.names() == ["b", "a"]
    assert await connections.url("a") == "redis://a"
    with pytest.raises(KeyError):
        await connections.url("c")
