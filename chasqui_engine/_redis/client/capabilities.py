"""What the connected server can do, and whether it is fit to hold jobs."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chasqui_engine.runtime.identity import for_client_list, library_name, version
from chasqui_engine.values.errors import RedisError

# FUNCTION came to Redis together with the flags of scripts, XCFGSET together with XADD … IDMP.
PROBE = (("INFO",), ("COMMAND", "INFO", "XACKDEL", "FUNCTION", "XCFGSET"))
"""Commands whose replies `Capabilities.read` takes."""

OLDEST = (6, 2)
_SCRIPT_FLAGS = (7, 0)
_CLIENT_SETINFO = (7, 2)

_log = logging.getLogger("chasqui.redis")
_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Detected once per connection; every fallback in the engine depends on one of these."""

    server: str
    """"redis" or "valkey"."""
    version: str
    eviction: str
    """maxmemory-policy."""
    ackdel: bool
    """`XACKDEL`: ack and delete in one command (Redis 8.2)."""
    script_flags: bool
    """Scripts may request to run on a full server (Redis 7, Valkey)."""
    setinfo: bool
    """`CLIENT SETINFO`: CLIENT LIST shows which library a client is (Redis 7.2, Valkey)."""
    idmp: bool
    """`XADD … IDMP`: an add that is sent again is recognised (Redis 8.6)."""
    run_id: str
    """Identifies the server, whatever address it is reached at; empty if unknown."""

    @staticmethod
    def read(info: Any, commands: Any) -> Capabilities:
        """From the replies to `PROBE`; an error reply (because of an ACL, say) counts as lacking the feature."""
        facts = read_info(info)
        valkey = "valkey_version" in facts
        # Valkey reports a redis_version for compatibility; its features depend on its own version.
        redis_version = _numbers(facts.get("redis_version", ""))
        ackdel, functions, idmp = _read_commands(commands)
        return Capabilities(
            server="valkey" if valkey else "redis",
            version=facts.get("valkey_version" if valkey else "redis_version", "unknown"),
            eviction=facts.get("maxmemory_policy", "unknown"),
            ackdel=ackdel,
            script_flags=valkey or functions or redis_version >= _SCRIPT_FLAGS,
            setinfo=valkey or redis_version >= _CLIENT_SETINFO,
            idmp=idmp,
            run_id=facts.get("run_id", ""),
        )

    def introduction(self) -> Sequence[tuple[str, ...]]:
        """Commands that identify this library to the server; none if it would refuse them."""
        if not self.setinfo:
            return ()
        pairs = ("LIB-NAME", library_name()), ("LIB-VER", for_client_list(version()))
        return tuple(("CLIENT", "SETINFO", *pair) for pair in pairs)

    def check(self, address: str) -> None:
        """Refuses a server that is too old; warns once about one that may evict jobs."""
        version = _numbers(self.version)
        if self.server == "redis" and version and version < OLDEST:
            raise RedisError(f"{address} runs Redis {self.version}; Chasqui needs Redis 6.2 or Valkey 7.2, or later")
        if self.eviction not in ("noeviction", "unknown") and (address, self.eviction) not in _warned:
            _warned.add((address, self.eviction))
            _log.warning(
                "%s has maxmemory-policy %s: when full, it drops jobs. Set it to noeviction", address, self.eviction
            )


def read_info(info: Any) -> dict[str, str]:
    """The fields of an INFO reply; none when it is an error."""
    if not isinstance(info, bytes):
        return {}
    lines = info.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _read_commands(commands: Any) -> tuple[bool, bool, bool]:
    """Which of the requested commands the server has; none if it does not say."""
    if not isinstance(commands, list) or len(commands) != len(PROBE[1]) - 2:
        return False, False, False
    ackdel, functions, idmp = (command is not None for command in commands)
    return ackdel, functions, idmp


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor version, also of `8.4-rc1`; empty if unreadable."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else ()
