"""What a worker logs: failures by themselves, as text or as JSON, with the job that a line is of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.worker.test_worker import started

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chasqui_engine import SyncQueue

HANDLERS = """
import logging

def handle(job):
    logging.getLogger("mine").warning("at %s", job.data)
    raise ValueError("mailbox is full")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "failing.py").write_text(HANDLERS)
    return tmp_path


def run_one(url: str, folder: Path, queue: SyncQueue, *options: str) -> tuple[str, str]:
    """What the worker wrote to stderr while it buried one job, and the job's id."""
    with started(url, folder, queue, "failing:handle", "--max-attempts", "1", *options) as worker:
        job = queue.add("welcome", 7)
        with pytest.raises(Exception, match="mailbox is full"):
            queue.wait_for_result(job, timeout=20)
        worker.interrupt()
        assert worker.wait() == 0
        return "".join(worker.errors), job.id


def test_a_death_is_logged_with_its_traceback(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    said, job_id = run_one(valkey_url, folder, queue)
    assert f"ERROR chasqui.consumer: queue {queue.name}: job {job_id!r} ('welcome') was buried after 1 run(s)" in said
    assert 'raise ValueError("mailbox is full")' in said
    assert "WARNING mine: at 7" in said


def test_json_lines_name_job_and_queue(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    said, job_id = run_one(valkey_url, folder, queue, "--log-format", "json", "--log-level", "info")
    lines = [json.loads(line) for line in said.splitlines()]
    [death] = [line for line in lines if line["level"] == "error"]
    assert (death["logger"], death["queue"], death["job_id"]) == ("chasqui.consumer", queue.name, job_id)
    assert "mailbox is full" in death["traceback"]
    [own] = [line for line in lines if line["logger"] == "mine"]
    assert (own["message"], own["job_id"]) == ("at 7", job_id)
    assert any("started: queue" in line["message"] for line in lines)


def test_job_ids_in_text_and_several_processes(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    said, job_id = run_one(valkey_url, folder, queue, "--log-job-ids", "--processes", "2")
    assert f"WARNING mine [job {job_id}]: at 7" in said


@pytest.mark.parametrize(
    ("given", "choices"), [(("--log-level", "loud"), "debug, info"), (("--log-format", "xml"), "text, json")]
)
def test_a_wrong_choice_is_told_with_the_right_ones(
    cli: Callable[..., Any], given: tuple[str, ...], choices: str
) -> None:
    said = cli("worker", "tasks:handle", *given)
    assert said.code == 2
    assert choices in said.err
