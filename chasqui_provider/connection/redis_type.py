"""A connection of type `redis`, which Airflow's own Redis provider reads, in the words of a `chasqui` one.

That provider ignores what it does not know, and its form sends `false` for a host name check that was never turned
off. Here unknown extras are refused by name, and certificates are checked unless the connection says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chasqui_engine import ConfigError
from chasqui_provider.connection.extras import TLS_WORDS, flag, is_given, whole_number
from chasqui_provider.connection.fields import ConnectionFields

REDIS_CONN_TYPE = "redis"

_KNOWN = frozenset({"db", "ssl", "cluster", "startup_nodes", *TLS_WORDS})
_FORM_DEFAULTS = {"ssl_cert_reqs": "required", "ssl_check_hostname": False}


def translate(connection: Any) -> ConnectionFields:
    """The same server; `ConfigError` names what a `redis` connection cannot say here."""
    given = connection.extra_dejson
    if not isinstance(given, Mapping):
        raise ConfigError(f"the extras must be a JSON object, got a {type(given).__name__}")
    extras = {name: value for name, value in given.items() if value not in (None, "")}
    if unknown := sorted(extras.keys() - _KNOWN):
        raise ConfigError(
            f"unknown extra {unknown[0]!r}; of a connection of type redis, {', '.join(sorted(_KNOWN))} are read: "
            "for more, make one of type chasqui"
        )
    cluster = flag(extras, "cluster")
    if "startup_nodes" in extras and not cluster:
        raise ConfigError("startup_nodes needs cluster")
    nodes = [connection.host, *str(extras.get("startup_nodes", "")).split(",")]
    return ConnectionFields(
        conn_id=connection.conn_id,
        conn_type="chasqui",
        host=",".join(node.strip() for node in nodes if node and node.strip()) or None,
        port=connection.port,
        login=connection.login,
        password=connection.password,
        schema=_database(connection.schema, extras, cluster=cluster),
        extra_dejson={"cluster": cluster, **_tls(extras)},
    )


def _database(schema: Any, extras: Mapping[str, Any], *, cluster: bool) -> str | None:
    said = {str(whole_number("db", value)) for value in (extras.get("db"), schema) if value not in (None, "")}
    if len(said) > 1:
        raise ConfigError(f"db is {extras['db']!r} and schema is {schema!r}: leave one of them out")
    if cluster and said - {"0"}:
        raise ConfigError("a Redis Cluster has no database but 0: leave db out")
    return said.pop() if said else None


def _tls(extras: Mapping[str, Any]) -> dict[str, Any]:
    words = {word: extras[word] for word in TLS_WORDS if is_given(extras, word)}
    if flag(extras, "ssl"):
        return {"tls": True, **words}
    stray = [word for word, value in words.items() if value != _FORM_DEFAULTS.get(word)]
    if stray:
        raise ConfigError(f"{stray[0]} has no effect without TLS: set ssl, or leave {stray[0]} out")
    return {}
