"""The `chasqui` command. What a command needs is imported when that command is given: starting must not take long."""

from __future__ import annotations

import io
import sys

from chasqui_engine.cli.argv_secrets import hide_secrets

__all__ = ["main"]


def main() -> None:
    """What the `chasqui` script calls."""
    hide_secrets()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a terminal has no letter for is still to be seen.
            stream.reconfigure(errors="backslashreplace")
    try:
        from chasqui_engine.cli.app import run
    except ModuleNotFoundError as err:
        if (err.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("error: [CMQ-004] the command line needs typer and rich. Next: pip install 'chasqui[cli]'")
    sys.exit(run(sys.argv[1:]))
