"""How much memory processes took at most, looked at twice a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

_EVERY_S = 0.5
Pids = Callable[[], Iterable[int]]


class Peaks:
    """The largest sums of resident memory seen while the block ran, in MB, by what is being watched."""

    def __init__(self, watched: Mapping[str, Pids]) -> None:
        self._watched = watched
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.mb: dict[str, int] = dict.fromkeys(watched, 0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(_EVERY_S):
            for name, pids in self._watched.items():
                self.mb[name] = max(self.mb[name], round(sum(map(_resident_mb, pids()))))


def below(pid: int) -> set[int]:
    """The processes that a process started, and those that they did."""
    parents = _parents()
    found: set[int] = set()
    newest = {pid}
    while newest:
        newest = {child for child, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def _resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):  # it has ended
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found
