"""Spark clusters of a test's own, from what the package `pyspark` brings; and programs that outlive no test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from tests.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
DEADLINE_S = 600
SPARK_HOME = Path(pyspark.__file__).parent


class Program:
    """A process with all that it starts; none of it outlives the block."""

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        self._log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, cwd=ROOT, start_new_session=True, env={**os.environ, **environment}
            )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9, to Python, Java and all of their children at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def succeed(self) -> None:
        assert self.process.wait(DEADLINE_S) == 0, self.said()

    def said(self, most: int = 4000) -> str:
        return self._log.read_text(errors="replace")[-most:]

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to come true while this runs."""
        give_up_at = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < give_up_at, self.said()
            time.sleep(0.02)


@contextmanager
def standalone(folder: Path, *, cores: int, memory: str = "600m", hosts: tuple[str, ...]) -> Iterator[str]:
    """A master and a worker per host; gives the master's URL."""
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    port = free_port()
    environment = {
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with ExitStack() as programs:

        def start(role: str, name: str, host: str, *args: str) -> None:
            command = [spark_class, f"org.apache.spark.deploy.{role}", "--host", host, "--webui-port", "0", *args]
            programs.enter_context(Program(command, folder / f"{name}.log", SPARK_LOCAL_IP=host, **environment))

        start("master.Master", "master", "127.0.0.1", "--port", str(port))
        master = f"spark://127.0.0.1:{port}"
        for number, host in enumerate(hosts):
            start("worker.Worker", f"worker-{number}", host, "--cores", str(cores), "--memory", memory, master)
        yield master


def python_without_the_repo(folder: Path) -> str:
    """This Python, which on executors that have CHASQUI_TEST_BARE set knows of the package only what Spark ships."""
    (folder / "bare").mkdir()
    lines = ["import os, sys", "if os.environ.get('CHASQUI_TEST_BARE'):"]
    lines += [f"    sys.path[:] = [path for path in sys.path if path != {str(ROOT)!r}]"]
    (folder / "bare" / "sitecustomize.py").write_text("\n".join(lines))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/bare:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)
