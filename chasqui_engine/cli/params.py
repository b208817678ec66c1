"""What people type: queues, durations, times and payloads."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from chasqui_engine.cli.formatting import ago
from chasqui_engine.cli.prompt import interruptible
from chasqui_engine.cli.session import USAGE, fail
from chasqui_engine.clock import now_ms
from chasqui_engine.codec import encode_payload
from chasqui_engine.config import ProducerConfig
from chasqui_engine.errors import EncodeError

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>ms|[smhdw])?")
_LONGEST_YEARS = 1000
_LONGEST_MS = _LONGEST_YEARS * 365 * _UNITS_MS["d"]
QueueArgument = Annotated[str | None, typer.Argument(metavar="QUEUE", help="The queue; or pass -q.")]
QueueOption = Annotated[list[str] | None, typer.Option("--queue", "-q", metavar="NAME", help="The queue.")]
"""A list only so that a second one is refused, and not taken in place of the first."""
GroupOption = Annotated[str, typer.Option("--group", metavar="NAME", help="The workers' consumer group.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def require_queue(argument: str | None, option: list[str] | None, default: str | None = None) -> str:
    """The queue that was named, one way or the other."""
    names = list(dict.fromkeys(name for name in (argument, *(option or [])) if name))
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
            fail(f"a queue and {rest} are needed", f"write {rest} -q NAME", exit_code=USAGE)
        queue, others = words[0], words[1:]
    if not others:
        fail(f"{rest} is missing", "see --help", exit_code=USAGE)
    return queue, others


def queue_and_one(words: list[str], option: list[str] | None, rest: str) -> tuple[str, str]:
    """A queue and the one word that goes with it."""
    queue, [word, *more] = queue_and_rest(words, option, rest)
    if more:
        fail(f"one {rest} is taken, and {more[0]!r} is one too many", f"write {rest} -q NAME", exit_code=USAGE)
    return queue, word


def parse_duration_ms(text: str) -> int:
    """`250ms`, `10s`, `5m`, `2h`, `1d`, `1w`; a bare number is seconds."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        fail(f"{text!r} is no duration", "write it like 250ms, 10s, 5m, 2h or 1d", exit_code=USAGE)
    ms = float(found["number"]) * _UNITS_MS[found["unit"] or "s"]
    if ms > _LONGEST_MS:
        fail(f"{text!r} is longer than {_LONGEST_YEARS} years", "write a shorter time", exit_code=USAGE)
    return round(ms)


def parse_delay(ms: float) -> None:
    """Says before the engine does that a job may not wait so long: its words are for those who can set the limit."""
    most_s = ProducerConfig().max_delay_secs
    if most_s and ms > most_s * 1000:
        fail(
            f"a job waits {ago(most_s * 1000)} at most, not {ago(ms)}",
            "choose an earlier time, or add it from Python with Queue(…, max_delay_secs=0)",
            exit_code=USAGE,
        )


def parse_time(text: str) -> datetime:
    """A time to come: `+5m` from now, or as ISO 8601 has it (UTC unless it says otherwise)."""
    if text.startswith("+"):
        return datetime.fromtimestamp((now_ms() + parse_duration_ms(text[1:])) / 1000, UTC)
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        fail(f"{text!r} is no time", "write it like 2027-03-01T09:00+01:00, or +5m", exit_code=USAGE)


def parse_payload(text: str | None, as_text: bool = False, way_out: str = "") -> Any:
    """A job's data: JSON, `@file`, `-` for stdin; nothing is None. `way_out` is for what is no JSON."""
    if text is None:
        return None
    if text == "-" or text.startswith("@"):
        text = _read(text)
    if as_text:
        return text
    try:
        data = json.loads(text)
        encode_payload(data)  # Python 3.13 reads JSON that is nested deeper than a payload can be
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
