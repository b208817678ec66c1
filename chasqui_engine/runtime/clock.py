"""Where time comes from. Wall-clock milliseconds for what is written, monotonic seconds for durations."""

from __future__ import annotations

import time

monotonic = time.perf_counter
"""Seconds that never jump, fine enough for microseconds: for timeouts, leases and durations."""


def now_ms() -> int:
    """This machine's wall clock in epoch milliseconds. What is due is decided by the server's, never by this."""
    return time.time_ns() // 1_000_000
