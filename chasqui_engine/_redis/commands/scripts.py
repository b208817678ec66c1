"""The Lua scripts: each a file in `lua/<key>/`, with its keys, arguments and reply in its header."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

_INCLUDES_MARK = "-- includes: "
# A write to the first key that changes nothing and needs no memory.
_HARMLESS_WRITES = {
    "stream": "redis.pcall('XDEL', KEYS[1], '0-0')",
    "zset": "redis.pcall('ZREM', KEYS[1], 'chasqui: nothing has this name')",
    "hash": "redis.pcall('HDEL', KEYS[1], 'chasqui: nothing has this name')",
    "lock": "if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('PEXPIRE', KEYS[1], 1) end",
}


class Script:
    """One script.

    Where it may run on a full server (`on_full_server` says what its first key is), it says so to servers that take
    flags. Redis before 7.0 has no flags, but checks memory only at a script's first write: so that one needs none.
    """

    __slots__ = ("_flagged", "_plain", "name")

    def __init__(self, name: str, source: str, *, on_full_server: str) -> None:
        self.name = name
        plain = flagged = source
        if on_full_server:
            plain = f"{_HARMLESS_WRITES[on_full_server]}\n{source}"
            flagged = f"#!lua flags=allow-oom\n{source}"
        self._plain = (plain, _sha(plain))
        self._flagged = (flagged, _sha(flagged))

    def source(self, script_flags: bool) -> str:
        """The source for `EVAL` and `SCRIPT LOAD`."""
        return (self._flagged if script_flags else self._plain)[0]

    def sha(self, script_flags: bool) -> str:
        """The hash for `EVALSHA`."""
        return (self._flagged if script_flags else self._plain)[1]


def _sha(source: str) -> str:
    return hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


@cache
def load(name: str, *, on_full_server: str = "") -> Script:
    """The script `lua/<name>.lua`, after those of `lua/includes/` that its `-- includes:` line names."""
    source = _read(name)
    first = source.partition("\n")[0]
    if first.startswith(_INCLUDES_MARK):
        for used in reversed(first.removeprefix(_INCLUDES_MARK).split()):
            source = f"{_read(f'includes/{used}')}\n{source}"
    return Script(name, source, on_full_server=on_full_server)


def _read(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text(encoding="utf-8")
