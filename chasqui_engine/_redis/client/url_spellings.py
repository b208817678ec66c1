"""URLs as ChasquiMQ and its redis client spell them, in our spelling. What is no such URL stays as it is.

valkey://  valkeys://                                redis://  rediss://
redis-cluster://a:1?node=b:2                         redis+cluster://a:1,b:2
redis-sentinel://a:1,b:2/0?sentinelServiceName=main  redis+sentinel://a:1,b:2/main/0
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode

_SCHEME = re.compile(r"(?:redis|valkey)(?P<tls>s?)(?:[-+](?P<kind>cluster|sentinel))?://", re.IGNORECASE)
_OURS = re.compile(r"rediss?(?:\+|://)", re.IGNORECASE)
_NODE = "node"
_SERVICE = "sentinelServiceName"
_LOGIN = {"sentinelUsername": "sentinel_username", "sentinelPassword": "sentinel_password"}


def respell(url: str) -> str:
    """The same URL as the rest of this package reads it."""
    found = _SCHEME.match(url)
    if found is None or _OURS.match(url):
        return url
    scheme, rest = f"redis{found['tls'].lower()}", url[found.end() :]
    kind = (found["kind"] or "").lower()
    if not kind:
        return f"{scheme}://{rest}"
    before, _, query = rest.partition("?")
    hosts, slash, path = before.partition("/")
    options = parse_qsl(query, keep_blank_values=True)
    hosts = ",".join([hosts, *(value for name, value in options if name == _NODE)])
    service = next((quote(value, safe="") for name, value in options if name == _SERVICE), "")
    if kind == "sentinel" and service:
        slash, path = "/", f"{service}/{path}".rstrip("/")
    left = urlencode([(_LOGIN.get(name, name), value) for name, value in options if name not in (_NODE, _SERVICE)])
    return f"{scheme}+{kind}://{hosts}{slash}{path}" + (f"?{left}" if left else "")
