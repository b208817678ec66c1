"""Where the binaries of the servers are. Looks only; `tests/servers/fetch` is what gets them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from chasqui_engine._redis.embedded.server import find_server
from chasqui_engine.values.errors import ConfigError

VALKEY = "valkey-9.1"
REDIS_6 = "redis-6.2"
REDIS_7 = "redis-7.0"
REDIS_8 = "redis-8.6"
KINDS = (VALKEY, REDIS_6, REDIS_7, REDIS_8)

# The kinds to test on, with commas between; all of them where it is not set.
CHOICE = "CHASQUI_TEST_SERVERS"


class Unavailable(Exception):  # noqa: N818 - an answer more than an error
    """This kind of server cannot be had here; says why."""


@functools.cache
def find(kind: str) -> str:
    """The path of the server's binary."""
    if kind not in chosen():
        raise Unavailable(f"{kind}: left out by {CHOICE}")
    for candidate in _candidates(kind):
        if candidate and _version(candidate).startswith(kind.partition("-")[2] + "."):
            return candidate
    raise Unavailable(f"{kind}: {_reason(kind)}")


def chosen() -> tuple[str, ...]:
    """The kinds that this run is for."""
    named = [name.strip() for name in os.environ.get(CHOICE, "").split(",") if name.strip()]
    if unknown := [name for name in named if name not in KINDS]:
        raise ValueError(f"{CHOICE} names {', '.join(unknown)}; the servers are {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in named) or KINDS


def _candidates(kind: str) -> list[str | None]:
    if kind == VALKEY:
        try:
            return [find_server()]
        except ConfigError as error:
            raise Unavailable(f"{kind}: {error}") from error
    given = os.environ.get("CHASQUI_REDIS86_SERVER") if kind == REDIS_8 else None
    return [given, str(_cache() / kind / "bin/redis-server"), shutil.which("redis-server")]


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
    if kind == REDIS_8 and (given := os.environ.get("CHASQUI_REDIS86_SERVER")):
        return f"CHASQUI_REDIS86_SERVER names no Redis 8.6 server: {given}"
    log = _cache() / f"{kind}.log"
    if log.exists():
        return f"`make servers` failed: {log.read_text().strip().splitlines()[-1]}"
    return "not on this machine; `make servers` gets it"
