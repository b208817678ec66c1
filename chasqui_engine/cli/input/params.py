"""What people type: queues, durations, times and payloads."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from chasqui_engine import EncodeError, ProducerConfig
from chasqui_engine.cli.input.completion import complete_queue
from chasqui_engine.cli.input.prompt import interruptible
from chasqui_engine.cli.output.formatting import ago
from chasqui_engine.cli.session import USAGE, fail
from chasqui_engine.codec import encode_payload
from chasqui_engine.runtime.clock import now_ms

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>ms|[smhdw])?")
_LONGEST_YEARS = 1000
_LONGEST_MS = _LONGEST_YEARS * 365 * _UNITS_MS["d"]
QueueArgument = Annotated[
    str | None, typer.Argument(metavar="QUEUE", help="The queue; or pass -q.", autocompletion=complete_queue)
]
QueueOption = Annotated[
    list[str] | None,
    typer.Option("--queue", "-q", metavar="NAME", help="The queue.", autocompletion=complete_queue),
]
"""A list, so that a second one is refused instead of replacing the first."""
QueuesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="QUEUE", help="The queues; all of them by default.", autocompletion=complete_queue),
]
QueuesOption = Annotated[
    list[str] | None,
    typer.Option("--queue", "-q", metavar="NAME,…", help="Queues; may be repeated.", autocompletion=complete_queue),
]
IdArguments = Annotated[list[str], typer.Argument(metavar="ID", help="The job's id, with -q QUEUE; or QUEUE ID.")]
GroupOption = Annotated[str, typer.Option("--group", metavar="NAME", help="The workers' consumer group.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def parse_queues(arguments: list[str] | None, options: list[str] | None) -> list[str]:
    """The queues that were named, each once; `-q a,b` is two. An argument is one name, so it may have a comma."""
    listed = (name for word in options or [] for name in word.split(","))
    return list(dict.fromkeys(name for name in (*(arguments or []), *listed) if name))


def require_queue(argument: str | None, option: list[str] | None, default: str | None = None) -> str:
    """The one queue that was named, as an argument or as an option."""
    names = parse_queues([argument] if argument else None, option)
    if len(names) > 1:
        fail(f"two queues are named, {names[0]!r} and {names[1]!r}", "name one", exit_code=USAGE)
    name = names[0] if names else default
    if name is None:
        fail("no queue is named", "pass -q NAME", exit_code=USAGE)
    return name


def queue_and_rest(words: list[str], option: list[str] | None, rest: str) -> tuple[str, list[str]]:
    """A queue and what follows it: `QUEUE WORD …` as ChasquiMQ has it, or `WORD … -q QUEUE`."""
    if option:
        queue, others = require_queue(None, option), words
    else:
        if len(words) < 2:
            fail(f"a queue and {rest} are required", f"write {rest} -q NAME", exit_code=USAGE)
        queue, others = words[0], words[1:]
    if not others:
        fail(f"{rest} is missing", "see --help", exit_code=USAGE)
    return queue, others


def queue_and_one(words: list[str], option: list[str] | None, rest: str) -> tuple[str, str]:
    """A queue and the one word that goes with it."""
    queue, [word, *more] = queue_and_rest(words, option, rest)
    if more:
        fail(f"expected one {rest}, and {more[0]!r} is one too many", f"write {rest} -q NAME", exit_code=USAGE)
    return queue, word


def parse_duration_ms(text: str) -> int:
    """`250ms`, `10s`, `5m`, `2h`, `1d`, `1w`; a bare number is seconds."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        fail(f"invalid duration {text!r}", "write it like 250ms, 10s, 5m, 2h or 1d", exit_code=USAGE)
    ms = float(found["number"]) * _UNITS_MS[found["unit"] or "s"]
    if ms > _LONGEST_MS:
        fail(f"{text!r} is longer than {_LONGEST_YEARS} years", "write a shorter time", exit_code=USAGE)
    return round(ms)


def check_delay(ms: float) -> None:
    """Checks the longest delay before the engine does, whose error names a setting that no option changes."""
    most_s = ProducerConfig().max_delay_secs
    if most_s and ms > most_s * 1000:
        fail(
            f"a delay is at most {ago(most_s * 1000)}, got {ago(ms)}",
            "choose an earlier time, or add it from Python with Queue(…, max_delay_secs=0)",
            exit_code=USAGE,
        )


def parse_time(text: str) -> datetime:
    """`+5m` from now, or an ISO 8601 time (UTC unless it has an offset)."""
    if text.startswith("+"):
        return datetime.fromtimestamp((now_ms() + parse_duration_ms(text[1:])) / 1000, UTC)
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        fail(f"invalid time {text!r}", "write it like 2027-03-01T09:00+01:00, or +5m", exit_code=USAGE)


def parse_payload(text: str | None, as_text: bool = False, way_out: str = "") -> Any:
    """A job's data: JSON, `@file`, or `-` for stdin; None without a text. `way_out` ends the advice on invalid JSON."""
    if text is None:
        return None
    if text == "-" or text.startswith("@"):
        text = _read(text)
    if as_text:
        return text
    try:
        data = json.loads(text)
        encode_payload(data)  # Python 3.13 parses JSON that is nested deeper than a payload can be
        return data
    except RecursionError:
        fail("the data is nested too deeply", "make it flatter", exit_code=USAGE)
    except EncodeError as err:
        fail(str(err.args[0]), "make it flatter, and keep whole numbers within 64 bits", exit_code=USAGE)
    except ValueError as err:
        fail(f"the data is not JSON ({err})", f"quote it for the shell{way_out}", exit_code=USAGE)


def _read(place: str) -> str:
    name = "stdin" if place == "-" else place[1:]
    try:
        with interruptible():
            data = sys.stdin.buffer.read() if place == "-" else Path(name).read_bytes()
        return data.decode()
    except UnicodeDecodeError as err:
        fail(f"{name} is not UTF-8 ({err.reason} at byte {err.start})", "convert it to UTF-8", exit_code=USAGE)
    except OSError as err:
        fail(f"{name} cannot be read: {err.strerror}", "check the file's name", exit_code=USAGE)
