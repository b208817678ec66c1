"""What a person sees: narrow terminals, the newest first, a job's story, answers from a pipe, completion."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import Job, Queue, QueueEvents, Worker
from tests.cli.commands.test_dead_delayed_repeatable import bury, ids
from tests.cli.test_terminal import tmux  # noqa: F401 - a fixture for all tests here
from tests.support.processes import COMMAND, Terminal, environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from chasqui_engine import SyncQueue


@pytest.fixture
def dead(client: redis.Redis, queue: SyncQueue) -> None:
    for n in range(3):
        bury(client, queue.name, f"job-{n}", name="send-email", reason="unrecoverable")


@pytest.mark.parametrize("words", [("dlq", "peek"), ("delayed", "list"), ("repeatable", "list"), ("doctor",)])
def test_tables_fold_on_a_terminal_of_50_columns(
    valkey_url: str, tmp_path: Path, queue: SyncQueue, dead: None, words: tuple[str, ...]
) -> None:
    queue.add("send-email", {"to": "ada@example.com"}, job_id="later-1", delay_ms=3_600_000)
    queue.upsert_repeatable_job("send-report", 1, repeat={"kind": "cron", "expression": "30 9 * * 1-5"})
    wanted = {
        "dlq": "job      job-2",
        "delayed": "job       later-1",
        "repeatable": "send-report::cron:",
        "doctor": "found",
    }
    with Terminal(valkey_url, tmp_path, *words, queue.name, columns=50, lines=200) as terminal:
        terminal.exit_code()
        screen = terminal.screen
    assert wanted[words[0]] in screen
    assert "│" not in screen
    assert all(len(line) <= 50 for line in screen.splitlines())


def test_a_terminal_shows_the_last_100_events_and_says_how_to_see_all(
    valkey_url: str, tmp_path: Path, queue: SyncQueue, client: redis.Redis
) -> None:
    for n in range(130):
        client.xadd(f"{{chasqui:{queue.name}}}:events", {"e": "completed", "id": f"job-{n}."})
    with Terminal(valkey_url, tmp_path, "events", queue.name, lines=180) as terminal:
        terminal.exit_code()
        screen = terminal.screen
    assert re.findall(r"id=job-(\d+)\.", screen) == [str(n) for n in range(30, 130)]
    assert "the last 100; --from 0 shows all that are kept" in screen
    with Terminal(valkey_url, tmp_path, "events", queue.name, "--from", "0", lines=180) as terminal:
        terminal.exit_code()
        assert "id=job-0." in terminal.screen


def test_a_pipe_gets_all_events(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    for n in range(1100):
        client.xadd(f"{{chasqui:{queue.name}}}:events", {"e": "completed", "id": f"job-{n}"})
    assert [event["job_id"] for event in cli("events", queue.name, "--json").lines] == [f"job-{n}" for n in range(1100)]


def test_a_comma_separates_queues(cli: Callable[..., Any], queue: SyncQueue) -> None:
    other = f"{queue.name}-2"
    for name in (queue.name, other):
        assert cli("add", "n", "-q", name).code == 0
    for words in (("-q", f"{queue.name},{other}"), ("-q", queue.name, "-q", other), (queue.name, other)):
        assert [one["name"] for one in cli("inspect", *words, "--json").json] == [queue.name, other]
    said = cli("add", "n", "-q", f"{queue.name},{other}")
    assert (said.code, "two queues are named" in said.err) == (2, True)


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("what\nyes\n", 0, 0), ("n\n", 1, 3), ("", 2, 3)])
def test_an_answer_is_read_from_a_pipe(
    cli: Callable[..., Any], queue: SyncQueue, dead: None, answer: str, code: int, left: int
) -> None:
    said = cli("dlq", "delete", queue.name, "--all", stdin=answer)
    assert said.code == code
    assert f"Delete 3 dead letters of {queue.name} for good? [y/N]: " in said.err
    assert queue.counts().dead == left


def test_the_newest_dead_letters_are_peeked(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    for n in range(30):
        bury(client, queue.name, f"job-{n}", name="mail", reason="unrecoverable")
    assert ids(cli("dlq", "peek", queue.name, "--json")) == [f"job-{n}" for n in range(29, 9, -1)]
    assert ids(cli("dlq", "peek", queue.name, "-n", "2", "--json")) == ["job-29", "job-28"]


def complete(url: str, *words: str) -> list[str]:
    """What a bash completes after these words."""
    variables = {"_CHASQUI_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [*COMMAND], env={**environment(url), **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_queues_reasons_and_events(valkey_url: str, queue: SyncQueue) -> None:
    queue.add("n", 1)
    assert complete(valkey_url, "chasqui", "inspect", queue.name[:-1]) == [queue.name]
    assert complete(valkey_url, "chasqui", "add", "n", "-q", queue.name[:-1]) == [queue.name]
    assert complete(valkey_url, "chasqui", "dlq", "peek", "--reason", "un") == ["unrecoverable"]
    assert complete(valkey_url, "chasqui", "events", "-e", "retry") == ["retry-scheduled"]
    assert complete("redis://127.0.0.1:1", "chasqui", "inspect", "x") == []


async def run_jobs(queue_name: str, url: str) -> None:
    async def handle(job: Job) -> Any:
        if job.name == "flaky":
            raise ValueError("the bank hung up")
        for n in range(12):
            job.log(f"step {n}")
        return {"sent": job.data}

    worker = Worker(queue_name, handle, redis_url=url, store_results=True, name="mailer")
    events = QueueEvents(queue_name, redis_url=url, last_event_id="0")
    async with Queue(queue_name, redis_url=url) as queue, events:
        await queue.add("mail", "ada", job_id="good")
        await queue.add("flaky", 1, job_id="bad", attempts=5, backoff=600_000)
        running = asyncio.create_task(worker.run())
        assert await queue.wait_for_result("good", timeout=20) == {"sent": "ada"}
        async with asyncio.timeout(20):
            async for event in events:
                if event.name == "retry-scheduled":
                    break
        await worker.close()
        await running


def test_a_job_tells_its_result_times_and_next_run(cli: Callable[..., Any], queue_name: str, valkey_url: str) -> None:
    asyncio.run(run_jobs(queue_name, valkey_url))
    good = cli("job", "good", "-q", queue_name)
    for part in ("state      completed", "runs       1\n", 'result     {"sent": "ada"}', "started    ", "duration   "):
        assert part in good.out
    assert re.search(r"worker     mailer-[0-9a-z]{6}\n", good.out)
    assert f"\nlog, the last 10 of 12; chasqui job logs good -q {queue_name}\n  step 2\n" in good.out
    assert good.out.endswith("\n  step 11\n")
    facts = cli("job", "good", "-q", queue_name, "--json").json
    assert (facts["log"], facts["log_lines"]) == ([f"step {n}" for n in range(2, 12)], 12)
    assert facts["result"] == {"sent": "ada"}
    assert facts["started_at_ms"] <= facts["ended_at_ms"]
    bad = cli("job", "bad", "-q", queue_name)
    for part in (
        "state      failed",
        "runs       1 of 5",
        "worker     mailer-",
        "last error ValueError: the bank hung up",
    ):
        assert part in bad.out
    # Ten minutes, give or take the worker's jitter of a tenth of a second.
    assert re.search(r"next run .*\(in (9m 5\ds|10m 0s)\)", bad.out)
    assert re.search(r"next run   20\d\d-", bad.out)


def test_a_closed_pipe_is_no_answer(valkey_url: str, queue: SyncQueue, dead: None) -> None:
    with open(os.devnull) as nothing:
        words = (*COMMAND, "dlq", "replay", queue.name)
        done = subprocess.run(
            words, env=environment(valkey_url), stdin=nothing, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert "confirmation required, but stdin has no answer" in done.stderr
    assert queue.counts().dead == 3
