"""The ceiling: how fast this server takes the XADD of one of our jobs, from a client written in C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.peer import QUEUE
from chasqui_engine.codec.envelope import encode_job
from chasqui_engine.values.job import Job

NAME = "limit"
WHAT = "redis-benchmark: the XADD of one of our jobs over one connection, by commands in flight"
LABEL = "redis-benchmark"
ROWS = {"limit, one by one": 1, "limit, -P 50": 50, "limit, -P 1000": 1000}
_REQUESTS = {1: 20_000, 50: 200_000, 1000: 400_000}


def measure(server_binary: str, port: int, *, share: float = 1.0) -> dict[str, float]:
    """A figure for each of `ROWS`."""
    return {row: _xadds_per_s(server_binary, port, pipelined, share) for row, pipelined in ROWS.items()}


def _xadds_per_s(server_binary: str, port: int, pipelined: int, share: float) -> float:
    beside = Path(server_binary).with_name("redis-benchmark")
    tool = str(beside) if beside.exists() else shutil.which("redis-benchmark")
    if tool is None:
        raise FileNotFoundError("redis-benchmark is neither beside the server nor on the path")
    envelope = encode_job(Job.new({"n": 12345}))
    options = ["-h", "127.0.0.1", "-p", str(port), "-c", "1", "-P", str(pipelined), "--csv", "-x"]
    options += ["-n", str(int(_REQUESTS[pipelined] * share))]
    xadd = ["XADD", f"{{chasqui:{QUEUE}}}:stream", "*", "n", "noop", "d"]  # -x adds what it reads from stdin
    answer = subprocess.run([tool, *options, *xadd], input=envelope, capture_output=True, check=True, timeout=120)
    last = answer.stdout.decode(errors="replace").strip().splitlines()[-1]
    return float(last.rsplit('"XADD', 1)[-1].split('","')[1])
