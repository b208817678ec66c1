"""The settings in an Airflow connection: where the server is, and how its queues are configured.

Only the extras named here are read; any other is refused by name, so that a misspelt one is noticed, and no other
option of the client can be reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, unquote, unquote_plus, urlencode

from chasqui_engine import ConfigError, RedisError
from chasqui_provider.connection.extras import TLS_WORDS, flag, is_given, tls_query, whole_number
from chasqui_provider.connection.redis_type import REDIS_CONN_TYPE, translate

CONN_TYPE = "chasqui"
DEFAULT_CONN_ID = "chasqui_default"
DEFAULT_PATIENCE_S = 30

_NUMBERS = ("max_stream_len", "max_delay_secs", "dedup_ttl_secs")
_SENTINEL_WORDS = ("sentinel_username", "sentinel_password", "sentinel_tls")
_PLACES = ("url", "sentinel", "cluster", "embedded")
ALLOWED_EXTRAS = frozenset(
    {
        *(*_PLACES, "tls", "queue_name", "when_full", "tracing", "connection_patience"),
        *(*TLS_WORDS, *_SENTINEL_WORDS, *_NUMBERS),
    }
)

_DEFAULT_PORTS = {"sentinel": 26379, "cluster": 6379, "": 6379}
# Matched on the raw text: the password must be found in a malformed URL too.
_LOGIN = re.compile(r"(?P<scheme>[^:/]*://)(?:(?P<user>[^:@/?]*)(?::(?P<password>[^?]*))?@)?(?P<rest>.*)", re.DOTALL)
_PASSWORD_IN_QUERY = re.compile(r"[?&]\w*password=([^&]*)")


class ConnectionLike(Protocol):
    """The fields of an Airflow connection that matter here."""

    conn_id: Any
    conn_type: Any
    host: Any
    port: Any
    login: Any
    password: Any
    schema: Any

    @property
    def extra_dejson(self) -> dict[str, Any]:
        """The extras as a mapping."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the queues of one connection."""

    url: str = field(repr=False)
    """Contains the password: never show it."""
    queue_name: str | None = None
    """The queue to use when none is named."""
    queue_options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `Queue`."""
    conn_id: str = ""
    connection_patience: int = DEFAULT_PATIENCE_S
    """Seconds to wait for an unreachable server when adding a job."""

    @property
    def secrets(self) -> list[str]:
        """What no log may show: the URL, and the passwords in it, both quoted and unquoted."""
        login = _LOGIN.fullmatch(self.url)
        inside = [login["password"] or ""] if login else []
        inside = [password for password in (*inside, *_PASSWORD_IN_QUERY.findall(self.url)) if password]
        meant = [*map(unquote, inside), *map(unquote_plus, inside)]
        return list(dict.fromkeys([*inside, *meant, self.url])) if inside else []

    def name_in(self, err: RedisError) -> RedisError:
        """The same error, with the connection and the server named."""
        login = _LOGIN.fullmatch(self.url)
        server = (login["rest"] if login else "").partition("?")[0].partition("/")[0]
        text = str(err.args[0]) if err.args else ""
        if text.startswith(f"connection {self.conn_id!r}"):
            return err
        where = "" if not server or server in text else f" ({server})"
        return type(err)(f"connection {self.conn_id!r}{where}: {text}")

    def name_of(self, queue_name: str | None) -> str:
        """The queue of that name, or the default one."""
        name = queue_name or self.queue_name
        if not name:
            raise ConfigError("no queue_name: pass one, or set a default in the connection's extras")
        return name


def settings_of(connection: ConnectionLike) -> Settings:
    """Reads a connection; `ConfigError` names what is wrong with it."""
    try:
        return _settings(connection)
    except ConfigError as err:
        raise ConfigError(f"connection {connection.conn_id!r}: {err.args[0]}") from None


def _settings(connection: ConnectionLike) -> Settings:
    if connection.conn_type == REDIS_CONN_TYPE:
        connection = translate(connection)
    if connection.conn_type not in (CONN_TYPE, "", None):
        raise ConfigError(f"its type is {connection.conn_type!r} but must be {CONN_TYPE!r} or {REDIS_CONN_TYPE!r}")
    extras = _extras(connection.extra_dejson)
    places = [place for place in _PLACES if _is_set(extras, place)]
    if len(places) > 1:
        raise ConfigError(f"give {places[0]} or {places[1]}, not both")
    if places != ["sentinel"] and (stray := [word for word in _SENTINEL_WORDS if is_given(extras, word)]):
        raise ConfigError(f"{stray[0]} needs sentinel, the service's name")
    options: dict[str, Any] = {name: whole_number(name, extras[name]) for name in _NUMBERS if name in extras}
    if "when_full" in extras:
        options["when_full"] = str(extras["when_full"])
    if flag(extras, "tracing"):
        options["tracing"] = True
    return Settings(
        url=_url(connection, extras, places[0] if places else ""),
        queue_name=extras.get("queue_name"),
        queue_options=options,
        conn_id=str(connection.conn_id or ""),
        connection_patience=_patience(extras),
    )


def _patience(extras: Mapping[str, Any]) -> int:
    patience_s = whole_number("connection_patience", extras.get("connection_patience", DEFAULT_PATIENCE_S))
    if patience_s < 0:
        raise ConfigError(f"connection_patience must not be negative, got {patience_s}")
    return patience_s


def _extras(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"the extras must be a JSON object, got a {type(given).__name__}")
    extras = {name: value for name, value in given.items() if value not in (None, "")}
    if unknown := sorted(extras.keys() - ALLOWED_EXTRAS):
        raise ConfigError(f"unknown extra {unknown[0]!r}; known are {', '.join(sorted(ALLOWED_EXTRAS))}")
    return extras


def _url(connection: ConnectionLike, extras: Mapping[str, Any], place: str) -> str:
    if place == "url":
        return _given_url(connection, extras)
    tls = flag(extras, "tls")
    if place == "embedded":
        return _embedded_url(extras, tls=tls)
    scheme = "rediss" if tls else "redis"
    scheme += f"+{place}" if place else ""
    hosts = _hosts(connection, _DEFAULT_PORTS[place])
    path = f"/{quote(str(extras['sentinel']), safe='')}" if place == "sentinel" else ""
    path += f"/{quote(str(connection.schema))}" if connection.schema and place != "cluster" else ""
    query = tls_query(extras, encrypted=tls, how="set tls")
    query |= _sentinel_query(extras) if place == "sentinel" else {}
    return _with_query(f"{scheme}://{_login(connection.login, connection.password)}{hosts}{path}", query)


def _given_url(connection: ConnectionLike, extras: Mapping[str, Any]) -> str:
    """The URL in the extras, with the connection's own login where it has none."""
    url = str(extras["url"])
    encrypted = url.lower().startswith("rediss")
    if flag(extras, "tls") and not encrypted:
        raise ConfigError("tls is on, but url does not begin with rediss: write rediss://, or leave tls out")
    query = tls_query(extras, encrypted=encrypted, how="begin url with rediss://")
    found = _LOGIN.fullmatch(url)
    if connection.password and found:
        if found["password"]:
            raise ConfigError("url and the password field both hold a password: leave one of them out")
        user = unquote(found["user"] or "") or connection.login
        url = f"{found['scheme']}{_login(user, connection.password)}{found['rest']}"
    return _with_query(url, query)


def _embedded_url(extras: Mapping[str, Any], *, tls: bool) -> str:
    folder = str(extras["embedded"])
    if not folder.startswith("/"):
        raise ConfigError(f"embedded must be an absolute folder, got {folder!r}")
    if tls:
        raise ConfigError("tls cannot be combined with embedded: that server is reached without a network")
    tls_query(extras, encrypted=False, how="name a server by its host")
    return f"embedded://{quote(folder)}"


def _sentinel_query(extras: Mapping[str, Any]) -> dict[str, str]:
    """How to reach the sentinels, where it differs from how to reach the server."""
    query = {word: str(extras[word]) for word in _SENTINEL_WORDS if word in extras}
    if "sentinel_tls" in query:
        query["sentinel_tls"] = str(flag(extras, "sentinel_tls")).lower()
    return query


def _hosts(connection: ConnectionLike, default_port: int) -> str:
    """One host, or several separated by commas, each with its port if it has one of its own."""
    port = connection.port or default_port
    hosts = [host.strip() for host in str(connection.host or "localhost").split(",")]
    return ",".join(_with_port(host, port) for host in hosts)


def _with_port(host: str, port: int) -> str:
    colons = host.rpartition("]")[2].count(":")
    if colons == 1:
        return host
    return f"[{host}]:{port}" if colons else f"{host}:{port}"


def _login(user: str | None, password: str | None) -> str:
    if not user and not password:
        return ""
    return f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@"


def _with_query(url: str, query: Mapping[str, str]) -> str:
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _is_set(extras: Mapping[str, Any], place: str) -> bool:
    return flag(extras, place) if place == "cluster" else place in extras
