"""A connection of type `redis`, as Airflow's own Redis provider keeps it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from chasqui_engine import ConfigError
from chasqui_provider.connection.settings import settings_of

AS_THE_FORM_SENDS_IT = {
    "db": 0,
    "cluster": False,
    "ssl": False,
    "ssl_cert_reqs": "required",
    "ssl_check_hostname": False,
}


def url_of(extra: Any = None, **fields: Any) -> str:
    return settings_of(Connection(conn_id="r", conn_type="redis", extra=json.dumps(extra or {}), **fields)).url


@pytest.mark.parametrize(
    ("fields", "extra", "url"),
    [
        ({"host": "h"}, {}, "redis://h:6379"),
        ({"host": "h"}, AS_THE_FORM_SENDS_IT, "redis://h:6379/0"),
        ({"host": "h", "port": 7000, "login": "u", "password": "p@"}, {"db": 3}, "redis://u:p%40@h:7000/3"),
        ({"host": "h", "schema": "3"}, {}, "redis://h:6379/3"),
        ({"host": "h", "schema": "3"}, {"db": "3"}, "redis://h:6379/3"),
        ({"host": "h"}, {"ssl": True}, "rediss://h:6379"),
        ({"host": "h"}, {"ssl": "true", "ssl_cert_reqs": "none"}, "rediss://h:6379?ssl_cert_reqs=none"),
        (
            {"host": "h"},
            {"ssl": True, "ssl_ca_certs": "/ca", "ssl_certfile": "/c", "ssl_keyfile": "/k"},
            "rediss://h:6379?ssl_ca_certs=%2Fca&ssl_certfile=%2Fc&ssl_keyfile=%2Fk",
        ),
        ({"host": "n1"}, {"cluster": True, "startup_nodes": "n2:7000, n3"}, "redis+cluster://n1:6379,n2:7000,n3:6379"),
    ],
)
def test_the_server_that_it_names(fields: dict[str, Any], extra: dict[str, Any], url: str) -> None:
    assert url_of(extra, **fields) == url


def test_tls_of_its_form_still_checks_the_host_name() -> None:
    """The form sends false for a switch that nobody touched; a text was written by somebody."""
    on = {**AS_THE_FORM_SENDS_IT, "ssl": True}
    assert url_of(on, host="h") == "rediss://h:6379/0?ssl_cert_reqs=required"
    assert url_of({"ssl": True, "ssl_check_hostname": "false"}, host="h") == "rediss://h:6379?ssl_check_hostname=False"


@pytest.mark.parametrize(
    ("fields", "extra", "what"),
    [
        ({}, {"socket_timeout": 5}, "'r': unknown extra 'socket_timeout'; .* make one of type chasqui"),
        ({}, {"queue_name": "q"}, "unknown extra 'queue_name'"),
        ({}, {"ssl": "tru"}, "ssl must be true or false"),
        ({}, {"ssl_ca_certs": "/ca"}, "ssl_ca_certs has no effect without TLS: set ssl"),
        ({}, {"ssl_cert_reqs": "none"}, "ssl_cert_reqs has no effect without TLS"),
        ({}, {"ssl": True, "ssl_cert_reqs": "maybe"}, "ssl_cert_reqs must be required"),
        ({}, {"db": "many"}, "db must be a whole number"),
        ({"schema": "1"}, {"db": 2}, "db is 2 and schema is '1'"),
        ({}, {"cluster": True, "db": 2}, "no database but 0"),
        ({}, {"startup_nodes": "n2"}, "startup_nodes needs cluster"),
        ({}, ["db"], "must be a JSON object"),
    ],
)
def test_what_it_cannot_say_is_named(fields: dict[str, Any], extra: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        url_of(extra, host="h", **fields)


def test_its_password_is_hidden_as_any() -> None:
    connection = Connection(conn_id="r", conn_type="redis", host="h", password="not-to-be-seen")
    assert "not-to-be-seen" in settings_of(connection).secrets
