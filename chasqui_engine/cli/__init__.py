"""The `chasqui` command. Each command imports what it needs when it runs, so that starting is fast."""

from __future__ import annotations

import io
import sys

from chasqui_engine.cli.input.argv_secrets import hide_secrets

__all__ = ["main"]


def main() -> None:
    """The entry point of the `chasqui` script."""
    hide_secrets()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal cannot encode is escaped.
            stream.reconfigure(errors="backslashreplace")
    try:
        from chasqui_engine.cli.app import run
    except ModuleNotFoundError as err:
        if (err.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("error: [CMQ-004] the command line needs typer and rich. Next: pip install 'chasqui[cli]'")
    sys.exit(run(sys.argv[1:]))
