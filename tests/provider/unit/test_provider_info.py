"""What Airflow is told about the provider holds."""

from __future__ import annotations

import json
import pkgutil
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from chasqui_provider.get_provider_info import get_provider_info
from chasqui_provider.operators.links import ChasquiQueueLink
from chasqui_provider.plugins.chasqui import ChasquiPlugin
from chasqui_provider.timetables.repeatable import RepeatableTimetable

INFO = get_provider_info()


def dotted(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value.startswith("chasqui_provider.") else []
    if isinstance(value, dict):
        value = list(value.values())
    return [name for item in value for name in dotted(item)] if isinstance(value, list) else []


def test_it_is_what_the_schema_asks_for() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)


@pytest.mark.parametrize("name", dotted(INFO))
def test_every_name_in_it_can_be_imported(name: str) -> None:
    assert pkgutil.resolve_name(name)


def test_the_plugin_brings_the_timetable() -> None:
    assert ChasquiPlugin.timetables == [RepeatableTimetable]


def test_the_link_leads_to_the_queue(connect: Any) -> None:
    from types import SimpleNamespace

    operator = SimpleNamespace(queue_name="a b", chasqui_conn_id="c")
    assert ChasquiQueueLink().get_link(operator, ti_key=None) == "/chasqui/queues/c/a%20b"
    unnamed = SimpleNamespace(queue_name=None, chasqui_conn_id="c")
    connect("c", extra={"queue_name": "by default"})
    assert ChasquiQueueLink().get_link(unnamed, ti_key=None) == "/chasqui/queues/c/by%20default"
    for extra in ({}, {"speling": 1}):
        connect("c", extra=extra)
        assert ChasquiQueueLink().get_link(unnamed, ti_key=None) == ""
    nowhere = SimpleNamespace(queue_name=None, chasqui_conn_id="nobody_made_it")
    assert ChasquiQueueLink().get_link(nowhere, ti_key=None) == ""
