"""How much memory this process takes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_MIB = 1024 * 1024


def resident_mib() -> float:
    """Resident memory in MiB; where the system does not say it, the most it ever was."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        import resource  # not on every system, and not needed on Linux

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / _MIB if sys.platform == "darwin" else peak / 1024
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB
