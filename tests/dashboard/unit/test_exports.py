"""The public names of the dashboard. What is added here stays."""

from __future__ import annotations

import inspect

from chasqui_engine import dashboard

NAMES = ["Connections", "DashboardSettings", "FixedConnections", "Guard", "Payloads", "TokenGuard", "create_app"]


def test_the_names_are_these() -> None:
    assert list(dashboard.__all__) == NAMES


def test_every_name_is_there_and_documented() -> None:
    assert all(inspect.getdoc(getattr(dashboard, name)) for name in NAMES if name != "Payloads")


def test_how_it_is_called() -> None:
    made = inspect.signature(dashboard.create_app)
    assert list(made.parameters) == ["connections", "guard", "settings"]
    assert made.parameters["settings"].default == dashboard.DashboardSettings()
    guard = inspect.signature(dashboard.Guard.user)
    assert guard.parameters["change"].kind is inspect.Parameter.KEYWORD_ONLY
