"""Safe output: text from a queue cannot move the cursor or set the title of a terminal.

Job ids, names, reasons, event fields, workers and keys are untrusted text. An invisible character (an escape, a
control, a change of direction) is shown as a dot, or in JSON as its number.
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
    """The text with a dot for each invisible character, line ends included."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _DOT for c in text)


def safe(text: str) -> str:
    """The same, except that line ends are kept."""
    return "\n".join(map(one_line, text.split("\n")))


def say(text: str, out: TextIO | None = None) -> None:
    """Writes lines for people, to stdout by default."""
    print(safe(text), file=out or sys.stdout, flush=True)


def say_exactly(text: str) -> None:
    """Writes a text; on a terminal invisible characters become dots."""
    print(safe(text) if sys.stdout.isatty() else text, flush=True)


def one_json_line(data: Any) -> str:
    """A value as JSON on one line, with invisible characters as escapes."""
    text = json_text(data, surrogates="keep")
    return text if text.isprintable() else _NOT_ASCII_PRINTABLE.sub(_as_number, text)


def _as_number(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


class SafeFormatter(logging.Formatter):
    """Log lines that are safe for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines."""
        return safe(super().format(record))


def safe_console() -> Console:
    """A console for tables; without colours if NO_COLOR is set or stdout is not a terminal.

    It makes every `str` safe before it measures it. For text with a style, use `style_text`.
    """
    from rich.console import Console

    class SafeConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(safe(text), **options)

        def on_broken_pipe(self) -> None:
            # Rich would exit the process.
            raise BrokenPipeError

    # A pipe has no width, and text that is cut cannot be searched.
    return SafeConsole(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 200)


def style_text(text: str, style: str, **options: Any) -> Text:
    """A safe text with a style."""
    from rich.text import Text

    return Text(safe(text), style=style, **options)
