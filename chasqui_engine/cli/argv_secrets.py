"""A command line is for all to see: one with a secret in it starts anew, with the secret in its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_VARIABLES = {
    "--url": "CHASQUI_REDIS_URL",
    "--redis-url": "CHASQUI_REDIS_URL",
    "--token": "CHASQUI_DASHBOARD_TOKEN",
}
"""Options that may hold a secret, and where else their values are looked for."""


def hide_secrets() -> None:
    """Replaces this process by the same command without its secrets, if it has any."""
    words = sys.argv[1:]
    values, rest = split_secrets(words)
    if not any(map(is_secret, values, values.values())) or os.name != "posix":
        return
    interpreter = sys.orig_argv[: len(sys.orig_argv) - len(words)]
    os.execve(sys.executable, [*interpreter, *rest], {**os.environ, **values})


def is_secret(variable: str, value: str) -> bool:
    """A token always is; a URL if there is a login in it, or a query that may have one."""
    return variable != "CHASQUI_REDIS_URL" or "@" in value or "password" in value


def split_secrets(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The values of such options, by variable, and the words without them; the last one of each counts."""
    values: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if word == "--":
            return values, [*rest, word, *left]
        if option not in _VARIABLES:
            rest.append(word)
        elif equals:
            values[_VARIABLES[option]] = value
        else:
            # Without a value it is wrong usage, which the command itself says.
            following = next(left, None)
            if following is None:
                rest.append(word)
            else:
                values[_VARIABLES[option]] = following
    return values, rest
