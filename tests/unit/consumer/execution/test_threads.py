"""Threads for plain handlers."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from chasqui_engine.consumer.execution.threads import DaemonThreads
from chasqui_engine.runtime.clock import monotonic


@pytest.fixture
async def threads() -> Any:
    pool = DaemonThreads()
    yield pool
    pool.close()


def _name(_: object = None) -> str:
    return threading.current_thread().name


async def test_values_and_arguments(threads: DaemonThreads) -> None:
    assert await threads.run(lambda a, b: a + b, 1, 2) == 3
    assert await threads.run(lambda: None) is None


async def test_it_runs_elsewhere_in_a_daemon(threads: DaemonThreads) -> None:
    thread = await threads.run(threading.current_thread)
    assert thread is not threading.main_thread()
    assert thread.daemon


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (ValueError("x"), ValueError),
        (SystemExit(1), SystemExit),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (asyncio.CancelledError(), asyncio.CancelledError),
        (GeneratorExit(), GeneratorExit),
        (StopIteration(1), RuntimeError),  # Python's own rule for coroutines
    ],
)
async def test_whatever_is_raised_comes_back(
    threads: DaemonThreads, raised: BaseException, seen: type[BaseException]
) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(seen):
        await threads.run(fail)
    assert await threads.run(lambda: "alive") == "alive"


async def test_calls_run_side_by_side(threads: DaemonThreads) -> None:
    together = threading.Barrier(20)
    await asyncio.wait_for(asyncio.gather(*(threads.run(together.wait, 5) for _ in range(20))), 10)


async def test_a_thread_is_kept_for_the_next_call(threads: DaemonThreads) -> None:
    names = [await threads.run(_name) for _ in range(10)]
    assert len(set(names)) == 1


async def test_no_more_threads_than_calls_at_once(threads: DaemonThreads) -> None:
    names = set()
    for _ in range(5):
        names.update(await asyncio.gather(*(threads.run(_nap_and_name) for _ in range(4))))
    assert len(names) == 4


def _nap_and_name() -> str:
    time.sleep(0.01)
    return _name()


async def test_the_context_comes_along_and_stays_here(threads: DaemonThreads) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("outside")

    def look_and_change() -> str:
        seen = variable.get()
        variable.set("inside")
        return seen

    assert [await threads.run(look_and_change) for _ in range(2)] == ["outside", "outside"]
    assert variable.get() == "outside"


async def test_cancelling_does_not_wait_and_the_thread_is_of_use_again(threads: DaemonThreads) -> None:
    release = threading.Event()
    began = monotonic()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(threads.run(release.wait, 20), 0.05)
    assert monotonic() - began < 5
    assert await threads.run(lambda: "meanwhile") == "meanwhile"
    release.set()
    assert await threads.run(lambda: "afterwards") == "afterwards"


async def test_many_short_calls(threads: DaemonThreads) -> None:
    values = await asyncio.gather(*(threads.run(lambda n=n: n * n) for n in range(500)))
    assert values == [n * n for n in range(500)]


async def test_idle_threads_end_when_closed() -> None:
    pool = DaemonThreads()
    thread = await pool.run(threading.current_thread)
    pool.close()
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()


def test_a_busy_thread_does_not_keep_the_process() -> None:
    code = (
        "import asyncio, time\n"
        "from chasqui_engine.consumer.execution.threads import DaemonThreads\n"
        "async def main():\n"
        "    pool = DaemonThreads()\n"
        "    try:\n"
        "        await asyncio.wait_for(pool.run(time.sleep, 60), 0.1)\n"
        "    except TimeoutError:\n"
        "        print('left')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == ("left\n", "")
