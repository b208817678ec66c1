"""What every command has: where the server is, how to answer, and what becomes of an error."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer

from chasqui_engine.cli.logs import log_to_stderr
from chasqui_engine.cli.prompt import ask_yes_or_no
from chasqui_engine.cli.terminal import one_json_line, safe_console, say
from chasqui_engine.config import ProducerConfig
from chasqui_engine.connections import connection_url
from chasqui_engine.errors import (
    ChasquiError,
    ConfigError,
    JobFailedError,
    QueueFullError,
    RedisError,
    ResultUnavailableError,
)

if TYPE_CHECKING:
    from rich.console import Console

    from chasqui_engine.producer import Producer

FAILED, USAGE, NOT_THERE, NO_SERVER, OUT_OF_TIME, INTERRUPTED, UNHEARD = 1, 2, 3, 4, 124, 130, 141
"""Exit codes."""
OWN_SERVER = "--url embedded:///tmp/chasqui"
"""Where to try things out without a server."""

_CONNECTION = "Connection and output"

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        "--redis-url",
        envvar="CHASQUI_REDIS_URL",
        metavar="URL",
        help="The server: redis://, rediss://, unix://, redis+sentinel://, redis+cluster:// or embedded://FOLDER.",
        rich_help_panel=_CONNECTION,
    ),
]
ConnIdOption = Annotated[
    str | None,
    typer.Option(
        "--conn-id", metavar="ID", help="An Airflow connection, in place of --url.", rich_help_panel=_CONNECTION
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.", rich_help_panel=_CONNECTION)]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks and the engine's log.", rich_help_panel=_CONNECTION)
]
_COMMON: tuple[tuple[str, Any, Any], ...] = (
    ("url", UrlOption, None),
    ("conn_id", ConnIdOption, None),
    ("as_json", JsonOption, False),
    ("debug", DebugOption, False),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, in one line, and what to do next."""

    message: str
    code: str | None
    """As in docs/errors.md; None when nothing is wrong, but not done either."""
    next_step: str
    exit_code: int


class CommandError(Exception):
    """Ends a command with a `Failure`."""

    def __init__(self, message: str, next_step: str, *, code: str | None, exit_code: int) -> None:
        super().__init__(message)
        self.failure = Failure(message, code, next_step, exit_code)


def fail(message: str, next_step: str, *, code: str | None = "CMQ-004", exit_code: int = FAILED) -> NoReturn:
    """Ends the command."""
    raise CommandError(message, next_step, code=code, exit_code=exit_code)


def no_such_queue(name: str) -> NoReturn:
    """Ends the command."""
    fail(f"there is no queue {name!r} on this server", "chasqui inspect shows those there are", exit_code=NOT_THERE)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a command."""

    url: str | None
    as_json: bool
    debug: bool

    @contextlib.asynccontextmanager
    async def producer(self, queue: str, **settings: Any) -> AsyncIterator[Producer]:
        """The queue, for the time of the block."""
        from chasqui_engine.producer import Producer

        producer = await Producer.connect(self.url, ProducerConfig(queue_name=queue, **settings))
        async with producer:
            yield producer

    @contextlib.asynccontextmanager
    async def existing(self, queue: str) -> AsyncIterator[Producer]:
        """The same, of a queue that must be there: an empty answer about a name that is misspelt would mislead."""
        async with self.producer(queue) as producer:
            if not await producer.exists():
                no_such_queue(queue)
            yield producer

    @property
    def console(self) -> Console:
        """Where tables go."""
        return safe_console()

    def answer(self, data: Any, show: Callable[[], Any]) -> None:
        """Says the same as JSON, or as `show` says it: by printing, or as something that rich can print."""
        if self.as_json:
            print_json(data)
            return
        shown = show()
        if isinstance(shown, str):
            say(shown)
        elif shown is not None:
            self.console.print(shown)

    def confirm(self, question: str, yes: bool) -> None:
        """Asks before something is lost; ends the command unless the answer is yes."""
        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            fail("this needs a yes, and there is nobody to ask", "pass --yes", exit_code=USAGE)
        if not ask_yes_or_no(question):
            fail("stopped, nothing was changed", "answer y, or pass --yes", code=None)


def print_json(data: Any) -> None:
    """One value on one line."""
    print(one_json_line(data), flush=True)


def command(
    app: typer.Typer, name: str | None = None, **options: Any
) -> Callable[[Callable[..., Coroutine[Any, Any, int | None] | int | None]], None]:
    """Adds a command: a function of a `Session` and its own parameters, `async` or plain, that may return a code."""

    def register(function: Callable[..., Any]) -> None:
        hints = get_type_hints(function, include_extras=True)
        own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(function).parameters.values()][1:]
        common = [
            inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for field, kind, default in _COMMON
        ]

        @wraps(function)
        def wrapper(url: str | None, conn_id: str | None, as_json: bool, debug: bool, **own: Any) -> int:
            log_to_stderr(logging.DEBUG if debug else logging.WARNING)
            return _guarded(function, url, conn_id, as_json, debug, own)

        signature = inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + common)
        del wrapper.__wrapped__
        wrapper.__signature__ = signature  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        app.command(name, **options)(wrapper)

    return register


def _guarded(
    function: Callable[..., Any], url: str | None, conn_id: str | None, as_json: bool, debug: bool, own: dict[str, Any]
) -> int:
    try:
        if conn_id is not None:
            url = connection_url(conn_id)
        code = function(Session(url, as_json, debug), **own)
        if inspect.iscoroutine(code):
            code = asyncio.run(code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it.
        return UNHEARD
    except Exception as err:
        if debug:
            raise
        return report(failure_of(err), ["--json"] if as_json else [])
    return int(code or 0)


def failure_of(err: Exception) -> Failure:
    """What to say about an error; one that nobody foresaw is a line as well."""
    if isinstance(err, CommandError):
        return err.failure
    if isinstance(err, ChasquiError):
        message = str(err.args[0]) if err.args else type(err).__name__
        if isinstance(err, RedisError):
            return Failure(message, err.code, _after_server_error(err, message), NO_SERVER)
        _, step, code = next(one for one in _NEXT_STEPS if isinstance(err, one[0]))
        return Failure(message, err.code, step, code)
    if isinstance(err, TimeoutError):
        return Failure(str(err) or "no answer in time", ChasquiError.code, "wait longer with --timeout", OUT_OF_TIME)
    what = err.strerror if isinstance(err, OSError) and err.strerror else f"{type(err).__name__}: {err}"
    where = f" ({err.filename})" if isinstance(err, OSError) and err.filename else ""
    return Failure(f"{what}{where}", ChasquiError.code, "--debug shows the traceback", FAILED)


def _after_server_error(err: RedisError, message: str) -> str:
    from chasqui_engine._redis.client import link

    if "OOM command not allowed" in message:
        return "let workers catch up, or raise the server's maxmemory"
    if isinstance(err, link.CommandError):
        return "run chasqui doctor"
    return f"start it, or check --url and CHASQUI_REDIS_URL; to try without a server: {OWN_SERVER}"


_NEXT_STEPS: tuple[tuple[type[ChasquiError], str, int], ...] = (
    (QueueFullError, "let workers catch up, then run the same command again", FAILED),
    (JobFailedError, "see chasqui dlq peek", FAILED),
    (ResultUnavailableError, "run the worker with --store-results", NOT_THERE),
    (ConfigError, "correct the value; --help says what it can be", USAGE),
    (ChasquiError, "run the command again with --debug to see more", FAILED),
)


def report(failure: Failure, args: Sequence[str]) -> int:
    """Says on stderr, in one line, what went wrong; returns the exit code."""
    message = " ".join(failure.message.split()).rstrip(".")
    if wants_json(args):
        told = {"error": {"code": failure.code, "message": message, "next": failure.next_step}}
        print(one_json_line(told), file=sys.stderr)
    else:
        stop = "" if message.endswith("?") else "."
        begin = "" if failure.code is None else f"error: [{failure.code}] "
        say(f"{begin}{message}{stop} Next: {failure.next_step}", sys.stderr)
    return failure.exit_code


def wants_json(args: Iterable[str]) -> bool:
    """Whether a command line asks for JSON."""
    return "--json" in args


def wants_debug(args: Iterable[str]) -> bool:
    """Whether a command line asks for tracebacks."""
    return "--debug" in args
