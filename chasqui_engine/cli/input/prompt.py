"""Questions on the terminal. While one waits for its answer, Ctrl-C ends the command at once."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

from chasqui_engine.cli.output.terminal import safe


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """For a block that waits for input: the event loop would act on a Ctrl-C only when the wait is over."""
    if threading.current_thread() is not threading.main_thread():
        # Signals reach the main thread only.
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ask_yes_or_no(question: str) -> bool | None:
    """Asks on stderr, and again until the answer is yes or no; an empty line is no. None when stdin ends before."""
    while True:
        print(f"{safe(question)} [y/N]: ", end="", file=sys.stderr, flush=True)
        with interruptible():
            answer = sys.stdin.readline()
        if not answer:
            print(file=sys.stderr)
            return None
        if not sys.stdin.isatty():
            print(safe(answer.strip()), file=sys.stderr)
        if (word := answer.strip().lower()) in ("y", "yes"):
            return True
        if word in ("", "n", "no"):
            return False
