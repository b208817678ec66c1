"""What a process takes of the machine, and what the machine is."""

from __future__ import annotations

import os
import platform
import threading
import time
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1024 * 1024


def rss_mib(pid: int | None = None) -> float:
    """Memory that a process holds right now."""
    resident = Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1]
    return int(resident) * _PAGE / MIB


def cpu_s(pid: int | None = None) -> float:
    """Processor time that a process has taken so far."""
    # A process's own clock, as clock_getcpuclockid(3) names it: /proc counts in hundredths of a second only.
    return time.clock_gettime(~(pid or os.getpid()) << 3 | 2)


def threads(pid: int | None = None) -> int:
    """Threads of a process."""
    return threading.active_count() if pid is None else len(list(Path(f"/proc/{pid}/task").iterdir()))


def sockets(pid: int) -> int:
    """Open sockets of a process."""
    folder = Path(f"/proc/{pid}/fd")
    return sum(os.readlink(link).startswith("socket:") for link in folder.iterdir() if link.is_symlink())


def machine() -> str:
    """In a few words."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PHYS_PAGES") * _PAGE / MIB / 1024
    versions = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GiB, {versions}"
