"""What a handler does when its job says so: fail, die, or take its worker along."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from chasqui_engine import UnrecoverableError

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1024 * 1024

_kept: list[bytearray] = []


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")


def _fail_once(attempt: int) -> None:
    if attempt == 0:
        raise ValueError("as told")


def _die(attempt: int) -> None:
    raise UnrecoverableError(f"as told, in run {attempt + 1}")


def _say_nothing(attempt: int) -> None:
    del attempt
    raise MuteError


def _exit(attempt: int) -> None:
    """Takes the whole worker process along."""
    del attempt
    os._exit(3)


def _fork(attempt: int) -> None:
    """The child holds every socket of the worker for a while."""
    del attempt
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)


def _leak(attempt: int) -> None:
    del attempt
    _kept.append(bytearray(MIB))


def _return_what_cannot_be_sent(attempt: int) -> object:
    del attempt
    return object()


ACTS: dict[str, Callable[[int], Any]] = {
    "well": lambda attempt: attempt,
    "fail": _fail_once,
    "die": _die,
    "mute": _say_nothing,
    "exit": _exit,
    "fork": _fork,
    "leak": _leak,
    "unsendable": _return_what_cannot_be_sent,
}
