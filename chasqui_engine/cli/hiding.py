"""A command line is for all to see: one with a password in its --url starts anew, with the URL in its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_OPTIONS = ("--url", "--redis-url")
VARIABLE = "CHASQUI_REDIS_URL"


def hide_password() -> None:
    """Replaces this process by the same command without the URL, if that may hold a password."""
    words = sys.argv[1:]
    url, rest = split_off_url(words)
    if url is None or not may_hold_password(url) or os.name != "posix":
        return
    interpreter = sys.orig_argv[: len(sys.orig_argv) - len(words)]
    os.execve(sys.executable, [*interpreter, *rest], {**os.environ, VARIABLE: url})


def may_hold_password(url: str) -> bool:
    """Whether there is a login in it, or a query that may have one."""
    return "@" in url or "password" in url


def split_off_url(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The last URL option's value, and the words without any of them."""
    url: str | None = None
    rest: list[str] = []
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if word == "--":
            return url, [*rest, word, *left]
        if option not in _OPTIONS:
            rest.append(word)
        elif equals:
            url = value
        else:
            # Without a value it is wrong usage, which the command itself says.
            url = next(left, None)
            if url is None:
                rest.append(word)
    return url, rest
