"""Queues as assets: their URIs, what makes them, and what they are to OpenLineage."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector
from airflow.sdk import Asset

from chasqui_provider.assets import convert_asset_to_openlineage, queue_asset, queue_uri, sanitize_uri


def test_a_uri_by_connection() -> None:
    assert queue_uri("a/b", "c d") == "chasqui://c%20d/a%2Fb"
    assert queue_asset("emails").uri == "chasqui://chasqui_default/emails"
    assert sanitize_uri(urlsplit("chasqui://c/q/?x#y")).geturl() == "chasqui://c/q"


def test_a_uri_by_server() -> None:
    assert queue_uri("a/b", host="h") == "chasqui://h:6379/a%2Fb"
    assert queue_uri("q", host="::1", port=7000, db=3) == "chasqui://[::1]:7000/3/q"
    assert queue_asset("emails", host="Redis.example.org").uri == "chasqui://redis.example.org:6379/emails"
    assert sanitize_uri(urlsplit("chasqui://h:1/0/q?x#y")).geturl() == "chasqui://h:1/q"


@pytest.mark.parametrize(
    "wrong", ["chasqui://c", "chasqui:///q", "chasqui://c/q/r", "chasqui://c/3/q", "chasqui://h:1/a/q", "chasqui://h:1"]
)
def test_a_uri_that_names_no_queue_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="chasqui://<connection>/<queue>"):
        sanitize_uri(urlsplit(wrong))


def test_airflow_makes_assets_by_keyword() -> None:
    def make(**keywords: Any) -> Any:
        return get_hook_lineage_collector().create_asset(
            scheme="chasqui", asset_kwargs=keywords, asset_extra={"team": "mail"}
        )

    by_server = make(queue_name="emails", host="h")
    assert (by_server.uri, by_server.extra) == ("chasqui://h:6379/emails", {"team": "mail"})
    assert make(queue_name="emails", chasqui_conn_id="eu").uri == "chasqui://eu/emails"


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("chasqui://h:6379/emails", "redis://h:6379", "emails"),
        ("chasqui://h:6379/3/a%2Fb", "redis://h:6379/3", "a/b"),
        ("chasqui://c%20d/emails", "redis://redis.example.org:7000/2", "emails"),
    ],
)
def test_an_asset_is_the_dataset_of_its_server_and_queue(connect: Any, uri: str, namespace: str, name: str) -> None:
    translate = pytest.importorskip("airflow.providers.openlineage.utils.utils").translate_airflow_asset
    connect("c d", host="redis.example.org", port=7000, schema="2", login="someone", password="not-to-be-seen")
    dataset = translate(Asset(uri=uri), None)
    assert (dataset.namespace, dataset.name) == (namespace, name)


def test_a_connection_that_cannot_be_read_is_no_dataset(connect: Any) -> None:
    connect("c", extra={"url": "redis://u:p?w@h:6379/0"})
    assert convert_asset_to_openlineage(Asset(uri="chasqui://c/emails"), None) is None
