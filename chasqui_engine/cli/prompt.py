"""Waiting for what people type. While the loop is held up for it, Ctrl-C ends the command as if there were no loop."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

from chasqui_engine.cli.terminal import safe


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """For a block that waits: a loop would only note the Ctrl-C, and act on it when the wait is over."""
    if threading.current_thread() is not threading.main_thread():
        # Ctrl-C never comes here.
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ask_yes_or_no(question: str) -> bool:
    """Asks on stderr; only a yes is one."""
    while True:
        print(f"{safe(question)} [y/N]: ", end="", file=sys.stderr, flush=True)
        with interruptible():
            answer = sys.stdin.readline()
        if not answer:
            print(file=sys.stderr)
        if (word := answer.strip().lower()) in ("y", "yes"):
            return True
        if word in ("", "n", "no"):
            return False
