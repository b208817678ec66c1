"""What every command shares: the server, the output, and the handling of errors."""

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

from chasqui_engine import (
    ChasquiError,
    ConfigError,
    JobAbortedError,
    JobExpiredError,
    JobFailedError,
    ProducerConfig,
    QueueBusyError,
    QueueFullError,
    RedisError,
    ResultUnavailableError,
)
from chasqui_engine.cli.input.prompt import ask_yes_or_no
from chasqui_engine.cli.logs import log_to_stderr
from chasqui_engine.cli.output.terminal import one_json_line, safe_console, say
from chasqui_engine.cli.server_errors import describe_server_error
from chasqui_engine.connections import connection_url

if TYPE_CHECKING:
    from rich.console import Console

    from chasqui_engine import Producer

FAILED, USAGE, NOT_THERE, NO_SERVER, OUT_OF_TIME, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 4, 124, 130, 141
"""Exit codes."""
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
    """What went wrong, and what to do next."""

    message: str
    code: str | None
    """As in docs/errors.md; None when nothing went wrong, such as an answer of no."""
    next_step: str
    exit_code: int


class CommandFailedError(Exception):
    """Ends a command with a `Failure`."""

    def __init__(self, message: str, next_step: str, *, code: str | None, exit_code: int) -> None:
        super().__init__(message)
        self.failure = Failure(message, code, next_step, exit_code)


def fail(message: str, next_step: str, *, code: str | None = "CMQ-004", exit_code: int = FAILED) -> NoReturn:
    """Ends the command."""
    raise CommandFailedError(message, next_step, code=code, exit_code=exit_code)


def no_such_queue(name: str) -> NoReturn:
    """Ends the command."""
    fail(f"there is no queue {name!r} on this server", "chasqui inspect lists the queues", exit_code=NOT_THERE)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a command."""

    url: str | None
    as_json: bool
    debug: bool

    @contextlib.asynccontextmanager
    async def producer(self, queue: str, **settings: Any) -> AsyncIterator[Producer]:
        """The queue, for the time of the block."""
        from chasqui_engine import Producer

        producer = await Producer.connect(self.url, ProducerConfig(queue_name=queue, **settings))
        async with producer:
            yield producer

    @contextlib.asynccontextmanager
    async def existing(self, queue: str) -> AsyncIterator[Producer]:
        """The same, for a queue that must exist: an empty answer about a misspelt name would mislead."""
        async with self.producer(queue) as producer:
            if not await producer.exists():
                no_such_queue(queue)
            yield producer

    @property
    def console(self) -> Console:
        """Where tables go."""
        return safe_console()

    def answer(self, data: Any, show: Callable[[], Any]) -> None:
        """Prints `data` as JSON, or what `show` returns for people; `show` may also print by itself."""
        if self.as_json:
            print_json(data)
            return
        shown = show()
        if isinstance(shown, str):
            say(shown)
        elif shown is not None:
            self.console.print(shown)

    def confirm(self, question: str, yes: bool) -> None:
        """Asks before something is lost; ends the command unless the answer is yes. A pipe may hold the answer."""
        if yes:
            return
        answer = None if self.as_json and sys.stdin.isatty() else ask_yes_or_no(question)
        if answer is None:
            fail("confirmation required, but stdin has no answer", "pass --yes", exit_code=USAGE)
        if not answer:
            fail("cancelled, nothing was changed", "answer y, or pass --yes", code=None)


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
            return _run_guarded(function, url, conn_id, as_json, debug, own)

        signature = inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + common)
        del wrapper.__wrapped__
        wrapper.__signature__ = signature  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        app.command(name, **options)(wrapper)

    return register


def _run_guarded(
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
        return BROKEN_PIPE
    except Exception as err:
        if debug:
            raise
        return report(failure_of(err, url), ["--json"] if as_json else [])
    return int(code or 0)


def failure_of(err: Exception, url: str | None = None) -> Failure:
    """What to say about an error; an unexpected one is a line as well. `url` is that of the server."""
    if isinstance(err, CommandFailedError):
        return err.failure
    if isinstance(err, ChasquiError):
        message = str(err.args[0]) if err.args else type(err).__name__
        if isinstance(err, RedisError):
            message, step = describe_server_error(err, url)
            return Failure(message, err.code, step, NO_SERVER)
        _, step, code = next(one for one in _NEXT_STEPS if isinstance(err, one[0]))
        return Failure(message, err.code, step, code)
    if isinstance(err, TimeoutError):
        return Failure(str(err) or "no answer in time", ChasquiError.code, "wait longer with --timeout", OUT_OF_TIME)
    what = err.strerror if isinstance(err, OSError) and err.strerror else f"{type(err).__name__}: {err}"
    where = f" ({err.filename})" if isinstance(err, OSError) and err.filename else ""
    return Failure(f"{what}{where}", ChasquiError.code, "--debug shows the traceback", FAILED)


_NEXT_STEPS: tuple[tuple[type[ChasquiError], str, int], ...] = (
    (QueueFullError, "let workers catch up, then run the same command again", FAILED),
    (QueueBusyError, "chasqui pause, and wait for the running jobs; or pass --force", FAILED),
    (JobAbortedError, "add the job again to run it", FAILED),
    (JobExpiredError, "start more workers, or add the job again", FAILED),
    (JobFailedError, "see chasqui dlq peek", FAILED),
    (ResultUnavailableError, "run the worker with --store-results", NOT_THERE),
    (ConfigError, "correct the value; --help describes it", USAGE),
    (ChasquiError, "run the command again with --debug to see more", FAILED),
)


def report(failure: Failure, args: Sequence[str]) -> int:
    """Prints one line on stderr: what went wrong, and the next step; returns the exit code."""
    message = " ".join(failure.message.split()).rstrip(".")
    if wants_json(args):
        facts = {"error": {"code": failure.code, "message": message, "next": failure.next_step}}
        print(one_json_line(facts), file=sys.stderr)
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
