"""A connection in the environment leads to the same server, whether Airflow reads it or the command line."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Connection

from chasqui_engine import ConfigError
from chasqui_provider.connection.environment import find_in_environment
from chasqui_provider.connection.lookup import connection_url
from chasqui_provider.connection.settings import settings_of

STORED = [
    ("chasqui://h:1/0", "redis://h:1/0"),
    ("chasqui://h", "redis://h:6379"),
    ("chasqui://u:p%40@h:7/2", "redis://u:p%40@h:7/2"),
    ("chasqui://:p%3F@h", "redis://:p%3F@h:6379"),
    ("chasqui://h?tls=true&queue_name=q", "rediss://h:6379"),
    ("chasqui://h?tls=false", "redis://h:6379"),
    ("chasqui://s1%2Cs2?sentinel=main", "redis+sentinel://s1:26379,s2:26379/main"),
    ("chasqui://?url=unix%3A%2F%2F%2Fs", "unix:///s"),
    ("chasqui://:secret@?url=redis%3A%2F%2Fh", "redis://:secret@h"),
    ("chasqui://h/?__extra__=%7B%22tls%22%3A+true%7D", "rediss://h:6379"),
    ("redis://u:p%40@h:7/2", "redis://u:p%40@h:7/2"),
    ("redis://h?ssl=true", "rediss://h:6379"),
    ('{"conn_type": "redis", "host": "h", "port": 7, "login": "u", "password": "a/b"}', "redis://u:a%2Fb@h:7"),
    ('{"conn_type": "redis", "host": "h", "extra": {"ssl": true, "db": 3}}', "rediss://h:6379/3"),
    ('{"conn_type": "chasqui", "extra": "{\\"url\\": \\"unix:///s\\"}"}', "unix:///s"),
    ('{"conn_type": "chasqui", "host": "h", "extra": {"tls": "false"}}', "redis://h:6379"),
    ('{"conn_type": "chasqui", "host": "h", "extra": "{\\"cluster\\": true}"}', "redis+cluster://h:6379"),
    # Several hosts alone: refused when the connection is used, which names the two kinds that have several.
    ('{"conn_type": "chasqui", "host": "h1,h2:7000"}', "redis://h1:6379,h2:7000"),
    ('{"conn_type": "chasqui", "host": "h1,h2:7000", "extra": {"cluster": true}}', "redis+cluster://h1:6379,h2:7000"),
    (
        '{"conn_type": "chasqui", "host": "h", "extra": {"tls": true, "ssl_ca_certs": "/ca"}}',
        "rediss://h:6379?ssl_ca_certs=%2Fca",
    ),
]


@pytest.mark.parametrize(("stored", "url"), STORED)
def test_airflow_and_the_command_line_agree(stored: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_C", stored)
    assert connection_url("c") == url
    assert settings_of(_by_airflow(stored)).url == url


def _by_airflow(stored: str) -> Any:
    if stored.startswith("{"):
        return Connection.from_json(stored, conn_id="c")
    from airflow.models.connection import Connection as Model

    return Model(conn_id="c", uri=stored)


@pytest.mark.parametrize(
    ("stored", "url"),
    [
        ("rediss://h:1?ssl_cert_reqs=none", "rediss://h:1?ssl_cert_reqs=none"),
        ("redis+sentinel://s1,s2/main", "redis+sentinel://s1,s2/main"),
        ("embedded:///var/lib/q", "embedded:///var/lib/q"),
    ],
)
def test_a_servers_url_is_taken_as_it_is(stored: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_C", stored)
    assert connection_url("c") == url


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ("just text, secret", "'c' is neither a URI nor JSON"),
        ('{"password": "secret"', "'c' begins like JSON, but is not valid JSON of Airflow"),
        ('{"password": "secret", "extra": "{"}', "'c' begins like JSON, but is not valid JSON of Airflow"),
        ("chasqui://:secret@h?__extra__=secret", "'c': __extra__ must be JSON"),
        ("chasqui://h?db=3", "'c': unknown extra 'db'"),
        ("redis://h?tls=true", "'c': unknown extra 'tls'"),
        ('{"conn_type": "postgres", "host": "h"}', "'c': its type is 'postgres'"),
        ('{"extra": [1]}', "'c': the extras must be a JSON object"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_secrets(
    stored: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_C", stored)
    with pytest.raises(ConfigError, match=why) as refused:
        connection_url("c")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("stored", [None, "", " "])
def test_what_is_not_there_is_left_to_airflow(stored: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_C", raising=False)
    if stored is not None:
        monkeypatch.setenv("AIRFLOW_CONN_C", stored)
    assert find_in_environment("c") is None
