"""The commands and their modules, of which only that of the given command is imported."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from chasqui_engine.cli.session import BROKEN_PIPE, INTERRUPTED, Failure, failure_of, report, wants_debug, wants_json

PROGRAM = "chasqui"

COMMANDS = {
    "worker": "worker",
    "add": "add",
    "bulk": "bulk",
    "result": "result",
    "job": "job",
    "inspect": "inspect",
    "workers": "inspect",
    "watch": "watch",
    "events": "events",
    "dashboard": "dashboard",
    "exporter": "exporter",
    "dlq": "dlq",
    "delayed": "delayed",
    "repeatable": "repeatable",
    "queue": "queue",
    "limit": "order.limit",
    "pause": "pause",
    "resume": "pause",
    "doctor": "doctor",
    "pipeline": "pipeline",
}
"""In the order in which `--help` shows them; each module has a `register(app)`."""

_HELP = """A job queue on Redis Streams: run workers, add jobs, see what happens, and repair what failed.

Start here:

 0. No Redis?          export CHASQUI_REDIS_URL=embedded:///tmp/chasqui

 1. Write tasks.py:    async def handle(job): return {"sent": job.data["to"]}

 2. Run its jobs:      chasqui worker tasks:handle -q emails --store-results

 3. Add one, in a      chasqui add hello '{"to": "ada"}' -q emails --wait
    second terminal:

 4. See the queues:    chasqui watch

 5. Find problems:     chasqui doctor

 The server:           --url, or --conn-id of an Airflow connection, or
                       CHASQUI_REDIS_URL, else redis://127.0.0.1:6379

 Every command has:    --help, --json for programs, --debug for tracebacks
"""
_LEADING = {"--url": True, "--redis-url": True, "--conn-id": True, "--json": False, "--debug": False}
"""Options of every command, and whether a value follows."""
_LEAST_COLUMNS = 70
"""Of a terminal for help in tables."""
_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 no server, 124 timed out, 130 interrupted, "
    "141 broken pipe."
)


def build(only: str | None = None) -> typer.Typer:
    """The application, with all commands or with one."""
    app = typer.Typer(
        name=PROGRAM,
        help=_HELP,
        epilog=_EXIT_CODES,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # In narrow columns rich cuts the names of options short; plain help wraps.
        rich_markup_mode=None if only in COMMANDS and shutil.get_terminal_size().columns < _LEAST_COLUMNS else "rich",
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
    """The options that may precede a command."""


def run(words: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    args = _move_common_last(list(words))
    # For completion, the shell passes the words in the environment, and every command is needed.
    only = None if f"_{PROGRAM.upper()}_COMPLETE" in os.environ else next(iter(args), None)
    try:
        code = build(only)(args=args, prog_name=PROGRAM, standalone_mode=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as err:
        if wants_debug(args):
            raise
        code = _usage_error(err, args) if hasattr(err, "format_message") else report(failure_of(err), args)
    return _flush(code if isinstance(code, int) else 0, args)


def _flush(code: int, args: Sequence[str]) -> int:
    """The exit code after the output is flushed. What cannot be written must not be tried again at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = BROKEN_PIPE
    except OSError as err:
        code = code or report(failure_of(err), args)
    else:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _move_common_last(args: list[str]) -> list[str]:
    """Moves common options that precede the command behind it, where typer expects them."""
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
        return 2  # a group without a command, whose help was shown
    return report(Failure(message, "CMQ-004", f"see {command} --help", 2), args)


__all__ = ["COMMANDS", "build", "run", "wants_json"]
