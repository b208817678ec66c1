"""Connections by name, as Airflow keeps them: from the environment, or from whoever else knows them."""

from __future__ import annotations

import json
import os
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from chasqui_engine.errors import ConfigError

CONNECTIONS_GROUP = "chasqui.connections"
"""Entry points that make a URL of a connection's name: `def url(conn_id: str) -> str`."""
_LOOKED_UP = frozenset({"sentinel", "cluster", "embedded", "__extra__"})
"""Extras that change what the other fields mean: whoever owns the connection's type reads those, and a URL with a
password beside it."""
_PASSED_ON = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")


def connection_url(conn_id: str) -> str:
    """The URL of a connection; `ConfigError` says why there is none."""
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    stored = os.environ.get(variable)
    found = None if stored is None else url_of_connection(conn_id, stored)
    if found is not None:
        return found
    for point in entry_points(group=CONNECTIONS_GROUP):
        url: str = point.load()(conn_id)
        return url
    why = f"{variable} is not set" if stored is None else f"{variable} has extras that its own package has to read"
    raise ConfigError(
        f"connection {conn_id!r}: {why}, and no installed package looks up connections "
        f"(entry points {CONNECTIONS_GROUP})"
    )


def url_of_connection(conn_id: str, stored: str) -> str | None:
    """A connection as Airflow keeps it in the environment, as JSON or as a URI; None if it needs to be looked up."""
    if stored.lstrip().startswith("{"):
        try:
            return _url_of_json(json.loads(stored))
        except (ValueError, AttributeError):
            # Never with the text itself: there may be a password in it.
            raise ConfigError(f"connection {conn_id!r} begins like JSON, but is none that Airflow writes") from None
    scheme, separator, rest = stored.partition("://")
    if not separator:
        raise ConfigError(f"connection {conn_id!r} is neither a URI nor JSON")
    if scheme != "chasqui":
        return stored
    place, _, query = rest.partition("?")
    extra = dict(parse_qsl(query))
    if _LOOKED_UP & extra.keys() or ("url" in extra and "@" in place):
        return None
    return extra.get("url", f"redis://{rest}")


def _url_of_json(fields: dict[str, Any]) -> str | None:
    extra = fields.get("extra") or {}
    extra = json.loads(extra) if isinstance(extra, str) else extra
    if url := extra.get("url"):
        return None if fields.get("password") else str(url)
    if _LOOKED_UP & extra.keys():
        return None
    scheme = "rediss" if extra.get("ssl") or extra.get("tls") else "redis"
    login = ""
    if fields.get("login") or fields.get("password"):
        login = f"{quote(fields.get('login') or '', safe='')}:{quote(fields.get('password') or '', safe='')}@"
    database = extra.get("db") or fields.get("schema") or 0
    query = urlencode({key: extra[key] for key in _PASSED_ON if key in extra})
    place = f"{fields.get('host') or 'localhost'}:{fields.get('port') or 6379}"
    return f"{scheme}://{login}{place}/{database}{'?' + query if query else ''}"
