"""The last part of `make demo`: a report on what some queues did.

    python -m demo.spark --url redis://127.0.0.1:6379 --queue demo --out /tmp/chasqui-demo

In a program: `what_is_missing()` says why Spark cannot run here (None: it can), and `write_report(url, queues,
folder, say=print)` runs the pipeline, reports each step, and returns the path of `report.html`. It blocks while Spark
runs: call it in a thread (`asyncio.to_thread`) or in a process of its own.

Spark reads in processes of its own, so the URL must work in any process: `redis://`, `unix://` or
`embedded:///folder`, not `embedded://` alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chasqui_engine.spark.session import start_session, what_is_missing
from chasqui_engine.values.errors import ChasquiError

WINDOW_S = 2
"""A demo is over in less than a minute."""
_OBJECTIVE = {"success_rate": 0.95, "latency_p95_ms": 1000, "min_finished": 5}

Say = Callable[[str], None]


def write_report(
    url: str, queues: Sequence[str], folder: str | Path, *, say: Say = print, window_s: int = WINDOW_S
) -> Path:
    """Runs the pipeline over all events of the queues; returns the path of the page."""
    from chasqui_engine.pipeline.config import PipelineConfig
    from chasqui_engine.pipeline.run import Pipeline

    started = time.monotonic()

    def say_timed(text: str) -> None:
        say(f"[{time.monotonic() - started:5.1f} s] {text}")

    target = Path(folder).resolve()
    target.mkdir(parents=True, exist_ok=True)
    slo_file = target / "slo.yaml"
    slo_file.write_text(json.dumps({"slos": [{"queue": queue, **_OBJECTIVE} for queue in queues]}, indent=1))
    config = PipelineConfig(
        queues=tuple(queues),
        out=f"file://{target}/data",
        url=url,
        window_s=window_s,
        slo_file=str(slo_file),
        entities=("events",),
    )
    say_timed("Spark is starting")
    with _stderr_in(target / "spark.log"):
        spark = start_session(quick=True)
    try:
        say_timed("Spark has started")
        Pipeline(spark, config, say_timed).run()
    finally:
        spark.stop()
    page = target / "report.html"
    shutil.copyfile(target / "data" / "report" / "index.html", page)
    say_timed(f"report  {page}")
    return page


@contextmanager
def _stderr_in(file: Path) -> Iterator[None]:
    """Sends what Java prints to a file, to keep it off the terminal."""
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.spark", description=__doc__.partition("\n")[0])
    parser.add_argument("--url", required=True, help="URL of the server, as other processes reach it")
    parser.add_argument("--queue", action="append", required=True, help="a queue; can be repeated")
    parser.add_argument("--out", default="chasqui-demo", help="folder for the report (default: %(default)s)")
    parser.add_argument("--window", type=int, default=WINDOW_S, help="seconds of a window (default: %(default)s)")
    args = parser.parse_args(argv)
    if missing := what_is_missing():
        sys.stderr.write(f"{missing}\n")
        return 1
    try:
        write_report(args.url, args.queue, args.out, say=_say, window_s=args.window)
    except ChasquiError as err:
        sys.stderr.write(f"{err}\n")
        return 2
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


__all__ = ["main", "what_is_missing", "write_report"]

if __name__ == "__main__":
    sys.exit(main())
