"""Where there is no POSIX: jobs can be added, and whatever needs it says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from redis.asyncio import Redis

ROOT = Path(__file__).parents[3]

# As on Windows: no forks, no file locks, no user ids, fewer signals, and no event loop that takes handlers for them.
WITHOUT_POSIX = """
import asyncio, os, signal, sys

for name in ("fork", "register_at_fork", "getuid", "geteuid", "O_NOFOLLOW"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGCHLD", "SIGUSR1", "SIGUSR2"):
    delattr(signal, name)
del asyncio.SelectorEventLoop.add_signal_handler
sys.modules["fcntl"] = None
"""

ADD = """
import asyncio, sys
from chasqui_engine import Producer, ProducerConfig, Queue, SyncQueue

url, name = sys.argv[1:]

async def add():
    async with Queue(name, redis_url=url) as queue:
        await queue.add("from a queue", 1)
    async with await Producer.connect(url, ProducerConfig(queue_name=name)) as producer:
        await producer.add(2, name="from a producer")

asyncio.run(add())
with SyncQueue(name, redis_url=url) as queue:
    queue.add("from a blocking queue", 3)
"""

REFUSED = """
import json, sys
from chasqui_engine import NotSupportedError, SyncQueue, Worker

def refusal(make):
    try:
        make()
    except NotSupportedError as err:
        return str(err)

print(json.dumps([refusal(lambda: Worker("q", print)), refusal(lambda: SyncQueue("q", redis_url="embedded://").counts())]))
"""


def run(code: str, *args: str) -> str:
    command = [sys.executable, "-c", WITHOUT_POSIX + code, *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_producers_add_jobs(redis_url: str, raw: Redis, queue_name: str) -> None:
    run(ADD, redis_url, queue_name)
    stream = await raw.xrange(f"{{chasqui:{queue_name}}}:stream")
    assert [fields[b"n"] for _, fields in stream] == [b"from a queue", b"from a producer", b"from a blocking queue"]


def test_workers_and_the_embedded_server_say_what_they_need() -> None:
    rest = "needs POSIX (Linux, macOS); queues and producers run on any system"
    assert json.loads(run(REFUSED)) == [f"[CMQ-200] a worker {rest}", f"[CMQ-200] embedded:// {rest}"]


def test_the_command_adds_and_looks(valkey_url: str, queue_name: str) -> None:
    for words in (["add", "x", "1", "-q", queue_name], ["inspect", queue_name, "--json"]):
        said = run("import sys\nfrom chasqui_engine.cli import main\nsys.exit(main())", *words, "--url", valkey_url)
    [told] = json.loads(said)
    assert told["counts"]["waiting"] == 1
