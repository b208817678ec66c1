"""The command line in a real terminal, on a queue that anybody wrote into: what is good is shown, all is text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("typer")

from tests.cli.test_hostile_text import unseen
from tests.security.fuzz.in_terminal import Said, run_in_terminal

if TYPE_CHECKING:
    import redis

    from tests.support.hostile.filling import Filled

DONE, FAILED, NOT_THERE = 0, 1, 3
ALL = "100000"
MOST_IDS = 8
"""Hostile jobs that are each asked for."""


def check(said: list[Said], *codes: int) -> None:
    """Nothing but text, and an end that the manual knows."""
    for one in said:
        assert one.code in codes, f"{one.words} {one.code} {one.text[-2000:]}"
        assert one.text, one.words
        assert "Traceback" not in one.text, one.words
        assert not unseen(one.text), f"{one.words} {unseen(one.text)[:5]!r}"


def ids_of(said: Said, key: str) -> list[Any]:
    """What a list in JSON, or JSON lines, names."""
    # Warnings go to the same terminal.
    told = [json.loads(line) for line in said.lines if line.startswith(("[", "{"))]
    return [row[key] for row in (told[0] if isinstance(told[0], list) else told)]


def test_what_is_good_is_listed_among_the_hostile(valkey_url: str, client: redis.Redis, filled: Filled) -> None:
    lists = {
        "delayed": ("delayed", "list", filled.queue, "-n", ALL),
        "repeat": ("repeatable", "list", filled.queue, "-n", ALL),
        "dlq": ("dlq", "peek", filled.queue, "-n", ALL),
        "events": ("events", filled.queue),
    }
    commands = [*([*words, "--json"] for words in lists.values()), ["dlq", "export", filled.queue], *lists.values()]
    said = run_in_terminal(valkey_url, commands)
    check(said, DONE)
    keys = {"delayed": "id", "repeat": "key", "dlq": "job_id", "events": "job_id"}
    for (place, key), one in zip(keys.items(), said, strict=False):
        found = ids_of(one, key)
        assert set(filled.good[place]) <= set(map(str, found)), place
        assert place == "repeat" or len(found) == filled.counts[place]
    assert len(said[4].lines) == filled.counts["dlq"]
    events: Any = client.xrange(f"{{chasqui:{filled.queue}}}:events")
    # Whatever their fields are called.
    assert ids_of(said[3], "entry_id") == [entry_id.decode() for entry_id, _ in events]


def test_how_queues_stand_is_told_whatever_is_beside_them(valkey_url: str, filled: Filled) -> None:
    queue = filled.queue
    commands = [
        ["inspect", "--json"],
        ["inspect", queue, "--json"],
        ["inspect"],
        ["inspect", queue],
        ["watch", "--count", "1"],
        ["watch", queue, "--count", "2", "--interval-ms", "50"],
        ["doctor"],
        ["doctor", queue],
        ["doctor", queue, "--json"],
    ]
    said = run_in_terminal(valkey_url, commands)
    check(said, DONE, FAILED)
    assert queue in said[0].text
    assert str(filled.counts["dlq"]) in said[1].text


def test_one_job_is_shown_whatever_it_is(valkey_url: str, client: redis.Redis, filled: Filled) -> None:
    good = [name for place in ("stream", "delayed", "dlq", "result", "failure") for name in filled.good[place][:1]]
    commands = [["job", name, "-q", filled.queue, "--json"] for name in good]
    hostile = [*stored(client, filled.queue, "result")[:MOST_IDS], *stored(client, filled.queue, "failure")[:MOST_IDS]]
    for name in hostile:
        commands += [["job", "-q", filled.queue, "--", name], ["result", "-q", filled.queue, "--", name]]
    said = run_in_terminal(valkey_url, commands)
    check(said, DONE, FAILED, NOT_THERE)
    states = [json.loads(one.text)["state"] for one in said[: len(good)]]
    assert states[0] in ("waiting", "active")
    assert states[1:] == ["delayed", "dead", "completed", "dead"]


def stored(client: redis.Redis, queue: str, kind: str) -> list[str]:
    """Ids of results or failure records, as far as they can be ids, and a shell can pass them."""
    prefix = f"{{chasqui:{queue}}}:{kind}:".encode()
    names = sorted(key.removeprefix(prefix) for key in client.scan_iter(prefix + b"*"))
    return [name.decode() for name in names if len(name) <= 1024 and b"\0" not in name and is_text(name)]


def is_text(data: bytes) -> bool:
    return data.decode(errors="ignore").encode() == data


def test_what_mends_a_queue_mends_what_is_good(valkey_url: str, client: redis.Redis, filled: Filled) -> None:
    queue, delayed, keys = filled.queue, filled.good["delayed"], filled.good["repeat"]
    commands = [
        ["repeatable", "preview", keys[0], "-q", queue, "-n", "3"],
        ["delayed", "reschedule", delayed[0], "-q", queue, "--delay", "2h"],
        ["delayed", "run-now", delayed[1], "-q", queue],
        ["delayed", "cancel", delayed[2], "-q", queue],
        ["repeatable", "remove", keys[1], "-q", queue],
        ["dlq", "replay", queue, "--job-id", filled.good["dlq"][0], "--yes"],
        ["dlq", "replay", queue, "--yes"],
        ["dlq", "delete", queue, "--all", "--yes"],
        ["pause", queue],
        ["resume", queue],
    ]
    check(run_in_terminal(valkey_url, commands), DONE)
    assert client.xlen(f"{{chasqui:{queue}}}:dlq") == 0
