"""What others wrote into a queue, shown in a terminal: no escape of theirs gets there."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

import msgpack
import pytest
import redis

from chasqui_engine import RepeatableSpec, RepeatPattern, SyncQueue
from chasqui_engine.cli.output.terminal import one_json_line, one_line, safe
from tests.support.processes import COMMAND, PATIENCE_S, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIL = "\x1b]0;owned\x07\x1b[2J\x1bc\x9b2J\u202e\b\r\x7f"
"""A title, a cleared screen, a reset, the same in one character, text backwards, and steps back."""
HOURLY = RepeatPattern.every(3_600_000)
KEY = RepeatableSpec(job_name=f"name{EVIL}", pattern=HOURLY, payload=None).resolved_key()
JOBS = ("waiting", "delayed", "dead", "done")
_OUR_OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[[0-9]*A|\x1b\[2K|\r(?=\x1b|\n)|\r\n")
"""Colours, the cursor that is hidden while a table is drawn again, and the steps back for that."""


def in_terminal(url: str, *args: str) -> str:
    """All that a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *args], stdin=theirs, stdout=theirs, stderr=theirs, env={**environment(url), "COLUMNS": "160"}
    ) as process:
        os.close(theirs)
        written = b""
        while data := _read(ours):
            written += data
        process.wait(PATIENCE_S)
    os.close(ours)
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError as err:
        if err.errno != errno.EIO:  # nobody is left at the other end
            raise
        return b""


def unseen(written: str) -> list[str]:
    """Characters that cannot be seen and are not of our own making."""
    return [c for c in _OUR_OWN.sub("", written) if not c.isprintable() and c != "\n"]


@pytest.fixture(scope="module")
def hostile(valkey_url: str) -> Iterator[str]:
    """A queue with such text in every field that takes any."""
    name = f"hostile-{os.getpid()}"
    prefix = f"{{chasqui:{name}}}"
    with redis.Redis.from_url(valkey_url) as client, SyncQueue(name, redis_url=valkey_url) as queue:
        _fill(client, queue, prefix)
        yield name
        client.delete(*client.keys(f"{prefix}*"))


def _fill(client: redis.Redis, queue: SyncQueue, prefix: str) -> None:
    payload = {EVIL: EVIL}
    queue.add(f"name{EVIL}", payload, job_id=f"waiting{EVIL}")
    queue.add(f"name{EVIL}", payload, job_id=f"delayed{EVIL}", delay_ms=3_600_000)
    queue.upsert_repeatable_job(f"name{EVIL}", payload, repeat=HOURLY)
    envelope = msgpack.packb([f"dead{EVIL}", msgpack.packb(payload), 1_700_000_000_000, 0])
    facts = {"source_id": "1-1", "reason": f"why{EVIL}", "detail": f"detail{EVIL}", "n": f"name{EVIL}"}
    client.xadd(f"{prefix}:dlq", {"d": envelope, **facts})
    client.set(f"{prefix}:result:done{EVIL}", msgpack.packb(f"result{EVIL}\nnext line"))
    event = {"e": f"event{EVIL}", "id": f"waiting{EVIL}", "n": f"name{EVIL}", "ts": "1700000000000"}
    client.xadd(f"{prefix}:events", {**event, f"field{EVIL}": f"value{EVIL}"})
    client.xadd(f"{prefix}:events", {"e": "progress", "id": f"waiting{EVIL}", "progress": json.dumps(EVIL)})
    for group in ("default", f"group{EVIL}"):
        client.xgroup_create(f"{prefix}:stream", group, "0")
    client.xreadgroup("default", f"worker{EVIL}", {f"{prefix}:stream": ">"}, count=1)
    client.xclaim(f"{prefix}:stream", "default", f"worker{EVIL}", 0, [_first(client, prefix)], idle=10**7)


def _first(client: redis.Redis, prefix: str) -> bytes:
    return client.xrange(f"{prefix}:stream", count=1)[0][0]  # type: ignore[index,no-any-return]


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("inspect",),
    ("inspect", "{queue}"),
    ("watch", "{queue}", "--count", "2", "--interval-ms", "50"),
    ("watch", "--count", "1"),
    ("doctor", "{queue}"),
    ("events", "{queue}"),
    ("events", "{queue}", "--json"),
    ("delayed", "list", "{queue}"),
    ("delayed", "list", "{queue}", "--json"),
    ("delayed", "reschedule", f"delayed{EVIL}", "-q", "{queue}", "--delay", "2h"),
    ("delayed", "cancel", f"nothing{EVIL}", "-q", "{queue}"),
    ("repeatable", "list", "{queue}"),
    ("repeatable", "list", "{queue}", "--json"),
    ("repeatable", "preview", KEY, "-q", "{queue}", "-n", "2"),
    ("repeatable", "preview", f"none{EVIL}", "-q", "{queue}"),
    ("repeatable", "remove", f"none{EVIL}", "-q", "{queue}"),
    ("dlq", "peek", "{queue}"),
    ("dlq", "peek", "{queue}", "--json"),
    ("dlq", "export", "{queue}"),
    ("dlq", "replay", "{queue}", "--name", f"none{EVIL}"),
    *(("job", f"{state}{EVIL}", "-q", "{queue}") for state in JOBS),
    *(("job", f"{state}{EVIL}", "-q", "{queue}", "--json") for state in JOBS),
    *(("result", f"{state}{EVIL}", "-q", "{queue}") for state in JOBS),
    ("result", f"done{EVIL}", "-q", "{queue}", "--json"),
    ("result", f"none{EVIL}", "-q", "{queue}"),
    ("result", f"none{EVIL}", "-q", "{queue}", "--json"),
    ("add", f"name{EVIL}", "1", "-q", "{queue}", "--id", f"waiting{EVIL}"),
    ("pause", f"odd{EVIL}"),
    ("worker", f"nowhere{EVIL}:handle", "-q", "{queue}"),
    ("dashboard", "--host", f"nowhere{EVIL}", "--token", "0123456789abcdef"),
    (f"nothing{EVIL}",),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(EVIL, ""))
def test_no_escape_of_others_reaches_a_terminal(valkey_url: str, hostile: str, words: tuple[str, ...]) -> None:
    written = in_terminal(valkey_url, *(word.replace("{queue}", hostile) for word in words))
    assert written
    assert "Traceback" not in written
    assert not unseen(written), repr(written)


def test_a_result_of_several_lines_keeps_them_in_a_terminal(valkey_url: str, hostile: str) -> None:
    assert in_terminal(valkey_url, "result", f"done{EVIL}", "-q", hostile).endswith("\r\nnext line\r\n")


def test_a_program_gets_a_result_as_it_is(valkey_url: str, hostile: str) -> None:
    run = [*COMMAND, "result", f"done{EVIL}", "-q", hostile]
    done = subprocess.run(run, env=environment(valkey_url), capture_output=True, check=True, timeout=PATIENCE_S)
    assert done.stdout.decode() == f"result{EVIL}\nnext line\n"


def test_json_says_the_same_with_numbers_for_what_cannot_be_seen() -> None:
    data = {EVIL: ["é", "漢", "😀", "\U000e0001", "\u2028", "\ud800"]}
    text = one_json_line(data)
    assert text.isprintable()
    assert json.loads(text) == data
    assert "é" in text


def test_lines_stay_lines_only_where_they_are_ours() -> None:
    assert safe("a\nb\x1b\tc") == "a\nb··c"
    assert one_line("a\nb") == "a·b"
