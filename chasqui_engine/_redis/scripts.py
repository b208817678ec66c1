"""The Lua scripts: each a file in `lua/`, with its keys, arguments and reply in its header."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

_PRELUDE_MARK = "-- uses: "


class Script:
    """One script. Where it may run on a full server, it says so to servers that want to be told."""

    __slots__ = ("_flagged", "_plain", "name")

    def __init__(self, name: str, source: str, *, on_full_server: bool) -> None:
        self.name = name
        self._plain = (source, _sha(source))
        flagged = f"#!lua flags=allow-oom\n{source}" if on_full_server else source
        self._flagged = (flagged, _sha(flagged))

    def source(self, script_flags: bool) -> str:
        """What `EVAL` and `SCRIPT LOAD` take."""
        return (self._flagged if script_flags else self._plain)[0]

    def sha(self, script_flags: bool) -> str:
        """What `EVALSHA` takes."""
        return (self._flagged if script_flags else self._plain)[1]


def _sha(source: str) -> str:
    return hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


@cache
def load(name: str, *, on_full_server: bool = False) -> Script:
    """The script in `lua/<name>.lua`, with the files put before it that its `-- uses:` line names."""
    source = _read(name)
    first = source.partition("\n")[0]
    if first.startswith(_PRELUDE_MARK):
        for used in reversed(first.removeprefix(_PRELUDE_MARK).split()):
            source = f"{_read(used)}\n{source}"
    return Script(name, source, on_full_server=on_full_server)


def _read(name: str) -> str:
    return (files("chasqui_engine._redis") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
