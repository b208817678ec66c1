"""`python -m benchmarks.airflow`: all measurements, as lines of a table."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.airflow", description=__doc__)
    parser.add_argument("--only", choices=["waits", "messages", "quick", "empty", "outage"], help="one of them")
    parser.add_argument("--waits", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=5_000, help="of `messages`; a tenth of them one by one")
    parser.add_argument("--bytes", type=int, default=0, help="of `messages`: of a payload")
    parser.add_argument("--executor", default="LocalExecutor", help="of `quick`; CeleryExecutor needs its provider")
    parser.add_argument("--cases", default="48x0,48x3,1x3,1x12", help="of `quick`: waits x seconds that a job takes")
    parser.add_argument("--defer-after", type=float, help="of `quick`: how long a worker waits before it defers")
    parser.add_argument("--slots", type=int, default=8, help="of `quick`: tasks that run at once")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="chasqui-bench-") as home:
        # Before anything of Airflow is imported; `airflow` itself is found beside the interpreter.
        os.environ |= {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PYTHONWARNINGS": "ignore"}
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        from benchmarks.airflow import empty, messages, outage, quick, waits

        if args.only in (None, "waits"):
            _show(asyncio.run(waits.measure(args.waits)))
        if args.only in (None, "quick"):
            cases = [quick.Case.read(case) for case in args.cases.split(",")]
            options = {} if args.defer_after is None else {"defer_after": args.defer_after}
            for measured in quick.measure(cases, args.executor, options, args.slots):
                _show(measured)
        if args.only in (None, "empty"):
            _show(empty.measure())
        if args.only in (None, "outage"):
            _show(outage.measure())
        if args.only in (None, "messages"):
            for jobs, batch_size, in_flight in ((args.jobs // 10, 1, 100), (args.jobs, 100, 1000)):
                _show(messages.measure(jobs, batch_size, in_flight, args.bytes))
    return 0


def _show(measured: dict[str, object]) -> None:
    for name, value in measured.items():
        print(f"{name:>36}  {value}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
