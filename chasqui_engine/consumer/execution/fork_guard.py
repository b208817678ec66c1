"""A guard against handlers that fork and whose child continues as if it were the worker.

The child has the worker's event loop and open files (but no connection: see `protocol.py`), and would act for it. It
may do what the handler has it do, but ends before anything of ours runs in it: at once, because closing what it has
open would close it for the worker too.
"""

from __future__ import annotations

import asyncio
import os
import weakref

from chasqui_engine.runtime.posix import at_fork

_FORKED = 70
"""The exit code of such a child: the one for an error in a program."""

_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def end_if_forked(worker_pid: int) -> None:
    """Ends this process if it is not the worker's."""
    if os.getpid() != worker_pid:
        os._exit(_FORKED)


def guard_against_forks(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, this loop does not turn in a child."""
    _loops.add(loop)


def _end_at_the_next_turn() -> None:
    for loop in _loops:
        # Before all that is ready in this turn; to the front there is no public way.
        ready = getattr(loop, "_ready", None)
        if ready is None:
            loop.call_soon(os._exit, _FORKED)
        else:
            ready.appendleft(asyncio.Handle(os._exit, (_FORKED,), loop))


at_fork(after_in_child=_end_at_the_next_turn)
