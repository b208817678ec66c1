"""The commands and where each is: only the module of the command that is given gets imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from chasqui_engine.cli.session import INTERRUPTED, UNHEARD, Failure, failure_of, report, wants_debug, wants_json

PROGRAM = "chasqui"

COMMANDS = {
    "worker": "worker",
    "add": "add",
    "bulk": "bulk",
    "result": "result",
    "job": "result",
    "inspect": "inspect",
    "watch": "watch",
    "events": "events",
    "dashboard": "dashboard",
    "dlq": "dlq",
    "delayed": "delayed",
    "repeatable": "repeatable",
    "pause": "pause",
    "resume": "pause",
    "doctor": "doctor",
    "pipeline": "pipeline",
}
"""In the order in which `--help` shows them; each module has a `register(app)`."""

_HELP = """A job queue on Redis Streams: run workers, add jobs, see what happens, and mend what went wrong.

Start here:

 0. No Redis at hand?  export CHASQUI_REDIS_URL=embedded:///tmp/chasqui

 1. Write tasks.py:    async def handle(job): return {"sent": job.data["to"]}

 2. Run its jobs:      chasqui worker tasks:handle -q emails --store-results

 3. Add one, in a      chasqui add hello '{"to": "ada"}' -q emails --wait
    second terminal:

 4. See the queues:    chasqui watch

 5. Something wrong?   chasqui doctor

 The server:          --url, or --conn-id of an Airflow connection, or
                      CHASQUI_REDIS_URL, else redis://127.0.0.1:6379

 Every command has:   --help, --json for programs, --debug for tracebacks
"""
_LEADING = {"--url": True, "--redis-url": True, "--conn-id": True, "--json": False, "--debug": False}
"""Whether a value follows."""
_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not there, 4 no server, 124 out of time, 130 interrupted, "
    "141 nobody reads."
)


def build(only: str | None = None) -> typer.Typer:
    """The application: whole, or with one command only."""
    app = typer.Typer(
        name=PROGRAM,
        help=_HELP,
        epilog=_EXIT_CODES,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    modules = [COMMANDS[only]] if only in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        import_module(f"chasqui_engine.cli.commands.{module}").register(app)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from chasqui_engine import version

        print(f"chasqui {version()}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Declares what may stand before a command."""


def run(words: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    args = _common_last(list(words))
    # Asked for completion, the shell passes the words in the environment, and every command counts.
    only = None if f"_{PROGRAM.upper()}_COMPLETE" in os.environ else next(iter(args), None)
    try:
        code = build(only)(args=args, prog_name=PROGRAM, standalone_mode=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as err:
        if wants_debug(args):
            raise
        code = _usage_error(err, args) if hasattr(err, "format_message") else report(failure_of(err), args)
    return _said(code if isinstance(code, int) else 0, args)


def _said(code: int, args: Sequence[str]) -> int:
    """The exit code, when all that was said has left; what cannot leave must not be tried again at the end."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = UNHEARD
    except OSError as err:
        code = code or report(failure_of(err), args)
    else:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _common_last(args: list[str]) -> list[str]:
    """Options that every command has may stand before it too; they are its own, so they are put behind it."""
    leading = 0
    while leading < len(args) and (option := args[leading].partition("="))[0] in _LEADING:
        leading += 1 if option[1] or not _LEADING[option[0]] else 2
    common, rest = args[:leading], args[leading:]
    if not rest:
        return args
    end = rest.index("--") if "--" in rest else len(rest)
    return rest[:end] + common + rest[end:]


def _usage_error(err: Exception, args: Sequence[str]) -> int:
    context = getattr(err, "ctx", None)
    command = context.command_path if context is not None else PROGRAM
    message = err.format_message().rstrip(".") if hasattr(err, "format_message") else str(err)
    if not message:
        return 2  # a group without a command: its help was shown
    return report(Failure(message, "CMQ-004", f"see {command} --help", 2), args)


__all__ = ["COMMANDS", "build", "run", "wants_json"]
