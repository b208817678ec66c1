"""Where the binaries of the servers are. Looks only; `tests/servers/fetch` is what gets them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from chasqui_engine._redis.embedded import find_server
from chasqui_engine.errors import ConfigError

VALKEY = "valkey-9.1"
REDIS_7 = "redis-7.0"
REDIS_8 = "redis-8.6"
KINDS = (VALKEY, REDIS_7, REDIS_8)


class Unavailable(Exception):  # noqa: N818 - an answer more than an error
    """This kind of server cannot be had here; says why."""


@functools.cache
def find(kind: str) -> str:
    """The path of the server's binary."""
    for candidate in _candidates(kind):
        if candidate and _version(candidate).startswith(kind.partition("-")[2] + "."):
            return candidate
    raise Unavailable(_reason(kind))


def _candidates(kind: str) -> list[str | None]:
    if kind == VALKEY:
        try:
            return [find_server()]
        except ConfigError as error:
            raise Unavailable(str(error)) from error
    if kind == REDIS_7:
        return [shutil.which("redis-server"), str(_cache() / REDIS_7 / "bin/redis-server")]
    home = os.environ.get("CHASQUI_REDIS86_HOME") or _cache() / REDIS_8
    return [os.environ.get("CHASQUI_REDIS86_SERVER"), str(Path(home, "bin/redis-server"))]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chasqui"


def _version(binary: str) -> str:
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except OSError:
        return ""
    found = re.search(r"v=(\S+)", answer)
    return found[1] if found else ""


def _reason(kind: str) -> str:
    log = _cache() / f"{kind}.log"
    if log.exists():
        return f"`make servers` failed: {log.read_text().strip().splitlines()[-1:]}"
    return "not on this machine; `make servers` gets it"
