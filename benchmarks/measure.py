"""One measurement in a process of its own: `python -m benchmarks.measure PEER SCENARIO URL JOBS`.

Prints one line of JSON: `{"figures": …, "jobs": …, "ran_again": …}`, `{"left_out": reason}` or `{"failed": reason}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from benchmarks import run_record
from benchmarks.bench import Bench, BenchError
from benchmarks.peers import load
from benchmarks.resp import Server
from benchmarks.scenarios import SCENARIOS

_LOG_CHARACTERS = 600


async def measure(name: str, scenario_name: str, url: str, jobs: int, folder: Path) -> dict[str, Any]:
    scenario = SCENARIOS[scenario_name]
    contestant = load(name)
    if scenario.name in contestant.left_out:
        return {"left_out": contestant.left_out[scenario.name]}
    jobs = min(jobs, contestant.most_jobs.get(scenario.name, contestant.most_jobs.get("*", jobs)))
    peer = contestant(url, scenario.work)
    path = folder / "record"
    os.environ[run_record.PATH_VARIABLE] = str(path)
    bench = Bench(
        name=name,
        peer=peer,
        jobs=jobs,
        server=Server(url),
        record=run_record.RunRecord.create(path, jobs + 1),
        log=folder / "workers.log",
    )
    try:
        await peer.open()
        figures = await scenario.measure(bench)
        await peer.close()
    except BenchError as error:
        said = bench.log.read_text(errors="replace")[-_LOG_CHARACTERS:] if bench.log.exists() else ""
        return {"failed": f"{error} {said}".strip()}
    times = 2 if scenario.work.handler == "fails once" else 1
    return {"figures": figures, "jobs": jobs, "ran_again": bench.ran_again(times)}


def main() -> None:
    name, scenario, url, jobs = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="chasqui-bench-") as folder:
        try:
            answer = asyncio.run(measure(name, scenario, url, int(jobs), Path(folder)))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is the answer
            traceback.print_exc()
            answer = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
    # Some native modules abort the interpreter while it shuts down.
    os._exit(0)


if __name__ == "__main__":
    main()
