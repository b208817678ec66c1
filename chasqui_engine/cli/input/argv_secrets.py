"""Re-executes the command with secrets moved from argv to the environment, because `ps` shows argv."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_VARIABLES = {
    "--url": "CHASQUI_REDIS_URL",
    "--redis-url": "CHASQUI_REDIS_URL",
    "--token": "CHASQUI_DASHBOARD_TOKEN",
}
"""Options that may hold a secret, and the environment variables that replace them."""


def hide_secrets() -> None:
    """Replaces this process by the same command without secrets in its arguments, if there are any."""
    words = sys.argv[1:]
    values, rest = split_secrets(words)
    if not any(map(is_secret, values, values.values())) or os.name != "posix":
        return
    interpreter = sys.orig_argv[: len(sys.orig_argv) - len(words)]
    os.execve(sys.executable, [*interpreter, *rest], {**os.environ, **values})


def is_secret(variable: str, value: str) -> bool:
    """A token always is; a URL is if it has a login, or a query that may hold one."""
    return variable != "CHASQUI_REDIS_URL" or "@" in value or "password" in value.lower()


def split_secrets(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The values of these options by variable, and the other words; the last value of each option wins."""
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
            # An option without a value is reported by the command itself.
            following = next(left, None)
            if following is None:
                rest.append(word)
            else:
                values[_VARIABLES[option]] = following
    return values, rest
