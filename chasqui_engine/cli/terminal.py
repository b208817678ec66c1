"""All that people read of a command goes through here: what others wrote into a queue moves no cursor, sets no title.

Job ids, names, reasons, fields of events, workers and keys are anybody's text. A character that cannot be seen (an
escape, a control, a change of direction) is shown as a dot, or in JSON as its number.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from chasqui_engine.payload_json import json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_DOT = "·"
_NOT_ASCII_PRINTABLE = re.compile(r"[^\x20-\x7e]")


def one_line(text: str) -> str:
    """The text with a dot for each character that cannot be seen, ends of lines included."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _DOT for c in text)


def safe(text: str) -> str:
    """The same, but lines stay lines."""
    return "\n".join(map(one_line, text.split("\n")))


def say(text: str, out: TextIO | None = None) -> None:
    """Writes lines for people, to stdout unless told otherwise."""
    print(safe(text), file=out or sys.stdout, flush=True)


def say_exactly(text: str) -> None:
    """Writes a text for people on a terminal; to a program it goes as it is."""
    print(safe(text) if sys.stdout.isatty() else text, flush=True)


def one_json_line(data: Any) -> str:
    """A value as JSON on one line, which says the same with every character that cannot be seen as its number."""
    text = json_text(data, surrogates="keep")
    return text if text.isprintable() else _NOT_ASCII_PRINTABLE.sub(_as_number, text)


def _as_number(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


class SafeFormatter(logging.Formatter):
    """What is logged, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        return safe(super().format(record))


def safe_console() -> Console:
    """Where tables go; without colours where NO_COLOR says so, or nobody looks.

    It makes every `str` safe that it is given, in a table or alone, before it measures it. Of text with a style, use
    `styled`.
    """
    from rich.console import Console

    class SafeConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(safe(text), **options)

        def on_broken_pipe(self) -> None:
            # Rich would end the process.
            raise BrokenPipeError

    # A pipe has no width; what is cut to fit one cannot be searched.
    return SafeConsole(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 200)


def styled(text: str, style: str, **options: Any) -> Text:
    """A text with a style, for a table or below one."""
    from rich.text import Text

    return Text(safe(text), style=style, **options)
