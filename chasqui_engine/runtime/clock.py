"""Where time comes from. Wall-clock milliseconds for what is written, monotonic seconds for durations."""

from __future__ import annotations

import time

monotonic = time.perf_counter
"""Monotonic seconds with microsecond precision: for timeouts, leases and durations."""


def now_ms() -> int:
    """This machine's wall clock in epoch milliseconds. Only the server's clock decides what is due."""
    return time.time_ns() // 1_000_000
