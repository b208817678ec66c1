"""From an Airflow connection to a URL and options."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Connection

from chasqui_engine import ConfigError
from chasqui_provider.connection import ALLOWED_EXTRAS, settings_of
from chasqui_provider.get_provider_info import get_provider_info


def connection(extra: dict[str, Any] | None = None, **fields: Any) -> Connection:
    import json

    return Connection(conn_id="c", conn_type="chasqui", extra=json.dumps(extra or {}), **fields)


@pytest.mark.parametrize(
    ("fields", "extra", "url"),
    [
        ({}, {}, "redis://localhost:6379"),
        ({"host": "h", "port": 7000, "schema": "3"}, {}, "redis://h:7000/3"),
        ({"host": "h", "login": "u", "password": "p/@:"}, {}, "redis://u:p%2F%40%3A@h:6379"),
        ({"host": "h", "password": "p"}, {}, "redis://:p@h:6379"),
        ({"host": "::1"}, {}, "redis://[::1]:6379"),
        ({"host": "[::1]:7000"}, {}, "redis://[::1]:7000"),
        ({"host": "h"}, {"tls": True}, "rediss://h:6379"),
        ({"host": "h"}, {"tls": "true", "ssl_ca_certs": "/ca.pem"}, "rediss://h:6379?ssl_ca_certs=%2Fca.pem"),
        ({"host": "h"}, {"tls": True, "ssl_check_hostname": False}, "rediss://h:6379?ssl_check_hostname=False"),
        ({"host": "ignored"}, {"url": "rediss://x:1/2"}, "rediss://x:1/2"),
        ({}, {"url": "rediss://x:1/2?a=b", "ssl_ca_certs": "ca"}, "rediss://x:1/2?a=b&ssl_ca_certs=ca"),
        ({"host": "s1,s2:1"}, {"sentinel": "main"}, "redis+sentinel://s1:26379,s2:1/main"),
        ({"host": "s1", "schema": "4"}, {"sentinel": "main", "tls": True}, "rediss+sentinel://s1:26379/main/4"),
        (
            {"host": "s1"},
            {"sentinel": "m", "sentinel_password": "a b", "sentinel_tls": "False"},
            "redis+sentinel://s1:26379/m?sentinel_password=a+b&sentinel_tls=false",
        ),
        ({"host": "h"}, {"sentinel_tls": False, "sentinel_password": ""}, "redis://h:6379"),
        ({"host": "n1,n2", "schema": "4"}, {"cluster": "True"}, "redis+cluster://n1:6379,n2:6379"),
        ({"host": "n1"}, {"cluster": False}, "redis://n1:6379"),
        ({}, {"embedded": "/data/my queue"}, "embedded:///data/my%20queue"),
    ],
)
def test_url(fields: dict[str, Any], extra: dict[str, Any], url: str) -> None:
    assert settings_of(connection(extra, **fields)).url == url


def test_queue_options_are_numbers_whatever_the_form_sends() -> None:
    extra = {"max_stream_len": "10", "when_full": "trim", "dedup_ttl_secs": 5, "max_delay_secs": "", "queue_name": "q"}
    settings = settings_of(connection(extra))
    assert settings.queue_options == {"max_stream_len": 10, "when_full": "trim", "dedup_ttl_secs": 5}
    assert settings.name_of(None) == "q"
    assert settings.name_of("other") == "other"


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        ({"ssl_ca_cert": "x"}, "ssl_ca_cert"),
        ({"retry_on_timeout": True}, "retry_on_timeout"),
        ({"url": "redis://x", "embedded": "/x"}, "not both"),
        ({"sentinel": "m", "cluster": True}, "not both"),
        ({"embedded": "relative"}, "absolute"),
        ({"sentinel_password": "p"}, "sentinel_password needs sentinel"),
        ({"max_stream_len": "many"}, "max_stream_len"),
    ],
)
def test_what_is_wrong_is_named(extra: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        settings_of(connection(extra))


def test_no_queue_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigError, match="queue_name"):
        settings_of(connection()).name_of(None)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(settings_of(connection(password="secret")))


def test_the_form_offers_exactly_what_is_read() -> None:
    (form,) = get_provider_info()["connection-types"]
    assert set(form["conn-fields"]) == ALLOWED_EXTRAS
