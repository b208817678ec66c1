"""From an Airflow connection to a URL and options."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Connection

from chasqui_engine import ConfigError
from chasqui_provider.connection.settings import ALLOWED_EXTRAS, settings_of
from chasqui_provider.get_provider_info import get_provider_info


def connection(extra: Any = None, **fields: Any) -> Connection:
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
        ({"host": "h"}, {"tls": "off", "ssl_check_hostname": False}, "redis://h:6379"),
        ({"host": "ignored"}, {"url": "rediss://x:1/2", "tls": False}, "rediss://x:1/2"),
        ({}, {"url": "rediss://x:1/2", "tls": "yes"}, "rediss://x:1/2"),
        ({"password": "p@"}, {"url": "redis://x:1/2"}, "redis://:p%40@x:1/2"),
        ({"login": "u", "password": "p"}, {"url": "redis+sentinel://a,b/m"}, "redis+sentinel://u:p@a,b/m"),
        ({"login": "other", "password": "p"}, {"url": "redis://u@x"}, "redis://u:p@x"),
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
    assert settings_of(connection({"tracing": "true"})).queue_options == {"tracing": True}
    assert settings_of(connection({"tracing": False})).queue_options == {}
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
        ({"max_stream_len": "many"}, "'c': max_stream_len must be a whole number"),
        ({"max_stream_len": 1.5}, "max_stream_len must be a whole number"),
        ({"max_stream_len": True}, "max_stream_len must be a whole number"),
        ({"tls": "tru"}, "tls must be true or false, got 'tru'"),
        ({"cluster": "maybe"}, "cluster must be true or false"),
        ({"tls": True, "ssl_check_hostname": "never"}, "ssl_check_hostname must be true or false"),
        ({"url": "redis://x", "tls": True}, "tls is on, but url does not begin with rediss"),
        ({"embedded": "/x", "tls": True}, "tls cannot be combined with embedded"),
        ({"ssl_ca_certs": "/ca.pem"}, "ssl_ca_certs has no effect without TLS: set tls"),
        ({"url": "redis://x", "ssl_certfile": "/c.pem"}, "ssl_certfile .* begin url with rediss://"),
        ({"embedded": "/x", "ssl_keyfile": "/k.pem"}, "ssl_keyfile has no effect without TLS"),
        ({"tls": True, "ssl_cert_reqs": "maybe"}, "ssl_cert_reqs must be required, optional, none"),
        (["url"], "the extras must be a JSON object, got a list"),
    ],
)
def test_what_is_wrong_is_named(extra: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        settings_of(connection(extra))


def test_two_passwords_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="url and the password field both hold a password") as caught:
        settings_of(connection({"url": "redis://u:first-one@x"}, password="second-one"))
    assert "first" not in str(caught.value)
    assert "second" not in str(caught.value)


@pytest.mark.parametrize("kind", ["postgres", "Redis", "Chasqui"])
def test_a_connection_of_another_kind_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"'c': its type is '{kind}' but must be 'chasqui' or 'redis'"):
        settings_of(Connection(conn_id="c", conn_type=kind, host="h", password="for another server"))


@pytest.mark.parametrize(
    ("fields", "extra", "secrets"),
    [
        ({"host": "h"}, {}, []),
        ({}, {"url": "redis://user@x/0"}, []),
        ({}, {"url": "redis://u:p%2Fq@x/0"}, ["p%2Fq", "p/q", "redis://u:p%2Fq@x/0"]),
        ({}, {"url": "redis://u:p#q@x:y"}, ["p#q", "redis://u:p#q@x:y"]),
        ({"host": "h", "password": "abc"}, {}, ["abc", "redis://:abc@h:6379"]),
        (
            {"host": "s"},
            {"sentinel": "m", "sentinel_password": "a b"},
            ["a+b", "a b", "redis+sentinel://s:26379/m?sentinel_password=a+b"],
        ),
    ],
)
def test_what_no_log_may_show(fields: dict[str, Any], extra: dict[str, Any], secrets: list[str]) -> None:
    assert settings_of(connection(extra, **fields)).secrets == secrets


def test_no_queue_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigError, match="queue_name"):
        settings_of(connection()).name_of(None)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(settings_of(connection(password="secret")))


def test_the_form_offers_exactly_what_is_read() -> None:
    (form,) = get_provider_info()["connection-types"]
    assert set(form["conn-fields"]) == ALLOWED_EXTRAS
