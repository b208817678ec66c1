"""What an Airflow connection says: where the server is, and how its queues are set up.

Only the extras named here are read; any other is refused by name, so that a misspelt one is noticed and nobody can
reach an option of the client that nobody thought of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from chasqui_engine import ConfigError

CONN_TYPE = "chasqui"
DEFAULT_CONN_ID = "chasqui_default"

_QUEUE_OPTIONS = {"max_stream_len": int, "max_delay_secs": int, "dedup_ttl_secs": int, "when_full": str}
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TLS_WORDS = ("ssl_cert_reqs", "ssl_check_hostname")
_SENTINEL_WORDS = ("sentinel_username", "sentinel_password", "sentinel_tls")
_PLACES = ("url", "sentinel", "cluster", "embedded")
ALLOWED_EXTRAS = frozenset({*_PLACES, "tls", "queue_name", *_TLS_FILES, *_TLS_WORDS, *_SENTINEL_WORDS, *_QUEUE_OPTIONS})

_DEFAULT_PORTS = {"sentinel": 26379, "cluster": 6379, "": 6379}


class ConnectionLike(Protocol):
    """The fields of an Airflow connection that count here."""

    conn_id: Any
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
    """With the password in it: not to be shown."""
    queue_name: str | None = None
    """The queue that is meant when none is named."""
    queue_options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `Queue`."""

    def name_of(self, queue_name: str | None) -> str:
        """The queue that is meant."""
        name = queue_name or self.queue_name
        if not name:
            raise ConfigError("no queue_name: pass one, or set a default in the connection's extras")
        return name


def settings_of(connection: ConnectionLike) -> Settings:
    """Reads a connection; `ConfigError` names what is wrong with it."""
    extras = {key: value for key, value in connection.extra_dejson.items() if value not in (None, "")}
    if unknown := sorted(extras.keys() - ALLOWED_EXTRAS):
        known = ", ".join(sorted(ALLOWED_EXTRAS))
        raise ConfigError(f"connection {connection.conn_id!r}: unknown extra {unknown[0]!r}; known are {known}")
    places = [place for place in _PLACES if _is_set(extras, place)]
    if len(places) > 1:
        raise ConfigError(f"connection {connection.conn_id!r}: give {places[0]} or {places[1]}, not both")
    if places != ["sentinel"] and (stray := [word for word in _SENTINEL_WORDS if _is_given(extras, word)]):
        raise ConfigError(f"connection {connection.conn_id!r}: {stray[0]} needs sentinel, the service's name")
    return Settings(
        url=_url(connection, extras, places[0] if places else ""),
        queue_name=extras.get("queue_name"),
        queue_options={key: _as(kind, key, extras[key]) for key, kind in _QUEUE_OPTIONS.items() if key in extras},
    )


def _url(connection: ConnectionLike, extras: Mapping[str, Any], place: str) -> str:
    if place == "url":
        return _with_query(str(extras["url"]), _tls_query(extras))
    if place == "embedded":
        folder = str(extras["embedded"])
        if not folder.startswith("/"):
            raise ConfigError(f"connection {connection.conn_id!r}: embedded must be an absolute folder, got {folder!r}")
        return f"embedded://{quote(folder)}"
    scheme = "rediss" if _flag(extras, "tls") else "redis"
    scheme += f"+{place}" if place else ""
    hosts = _hosts(connection, _DEFAULT_PORTS[place])
    path = f"/{quote(str(extras['sentinel']), safe='')}" if place == "sentinel" else ""
    path += f"/{quote(str(connection.schema))}" if connection.schema and place != "cluster" else ""
    query = {**_tls_query(extras), **(_sentinel_query(extras) if place == "sentinel" else {})}
    return _with_query(f"{scheme}://{_login(connection)}{hosts}{path}", query)


def _sentinel_query(extras: Mapping[str, Any]) -> dict[str, str]:
    """How the sentinels are reached, where that is another way than to the server itself."""
    query = {word: str(extras[word]) for word in _SENTINEL_WORDS if word in extras}
    if "sentinel_tls" in query:
        query["sentinel_tls"] = str(_flag(extras, "sentinel_tls")).lower()
    return query


def _is_given(extras: Mapping[str, Any], word: str) -> bool:
    """A form sends false for a switch that nobody touched."""
    return word in extras and extras[word] is not False


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


def _login(connection: ConnectionLike) -> str:
    if not connection.login and not connection.password:
        return ""
    return f"{quote(connection.login or '', safe='')}:{quote(connection.password or '', safe='')}@"


def _tls_query(extras: Mapping[str, Any]) -> dict[str, str]:
    query = {key: str(extras[key]) for key in _TLS_FILES if key in extras}
    if "ssl_cert_reqs" in extras:
        query["ssl_cert_reqs"] = str(extras["ssl_cert_reqs"])
    if "ssl_check_hostname" in extras:
        query["ssl_check_hostname"] = str(_flag(extras, "ssl_check_hostname"))
    return query


def _with_query(url: str, query: Mapping[str, str]) -> str:
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _is_set(extras: Mapping[str, Any], place: str) -> bool:
    return _flag(extras, place) if place == "cluster" else place in extras


def _flag(extras: Mapping[str, Any], key: str) -> bool:
    """Forms and URIs send true as text."""
    value = extras.get(key, False)
    return value if isinstance(value, bool) else str(value).strip().lower() in ("true", "1", "yes", "on")


def _as(kind: type, key: str, value: Any) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError) as err:
        raise ConfigError(f"{key} must be a whole number, got {value!r}") from err
