"""Spark against a server of its own.

    python -m benchmarks.spark --bars               # ratios to what people write by hand, at 1,000,000 rows
    python -m benchmarks.spark --beside 1000000     # the pipeline beside polars and duckdb, over the same events
    python -m benchmarks.spark --scale 5000000      # rows in, worked off, events through the pipeline; cost per row

Prints a table, keeps the figures in benchmarks/results/, fills README.md, and draws docs/img/spark-cost-per-row.svg;
`--try` only prints. The exit code is 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

import pyspark
import redis

from benchmarks.results import FOLDER, this_machine
from benchmarks.spark import beside, ratios, report, scale
from benchmarks.spark.common import session
from tests.servers import ServerProcess

_SMALLER = (100_000, 1_000_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bars", action="store_true", help="measure the ratios")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the ratios (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="rounds of the ratios (default: %(default)s)")
    parser.add_argument("--beside", type=int, metavar="EVENTS", help="the pipeline beside polars and duckdb")
    parser.add_argument("--scale", type=int, metavar="ROWS", help="the scale run, up to so many rows")
    parser.add_argument("--sizes", type=int, nargs="+", help="its sizes (default: 100000, 1000000 and ROWS)")
    parser.add_argument("--try", action="store_true", dest="only_try", help="keep nothing")
    args = parser.parse_args()
    if not (args.bars or args.scale or args.beside):
        parser.error("what is to be measured? --bars, --beside EVENTS, --scale ROWS, or several of them")
    sizes = args.sizes or sorted({*(size for size in _SMALLER if size < (args.scale or 0)), args.scale or 0})
    held = True
    with ServerProcess() as server, redis.Redis.from_url(server.url) as client:
        spark = session()
        about = {
            "server": _server(client),
            "machine": this_machine(),
            "spark": pyspark.__version__,
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            if args.bars:
                found = {**about, **ratios.measure(spark, client, server.url, args.rows, args.repeat)}
                held &= _tell("bars", found, report.ratios_table(found), ratios.verdicts(found), args.only_try)
            if args.beside:
                found = {**about, **beside.measure(spark, client, server.url, args.beside)}
                held &= _tell("beside", found, report.beside_table(found), beside.verdicts(found), args.only_try)
            if args.scale:
                found = {**about, **scale.measure(spark, client, server.url, server.pid, sizes)}
                held &= _tell("scale", found, report.scale_table(found), scale.verdicts(found), args.only_try)
                if not args.only_try:
                    print(report.draw(found))
        finally:
            spark.stop()
    return 0 if held else 1


def _tell(mark: str, found: dict[str, Any], table: str, verdicts: dict[str, bool], only_try: bool) -> bool:
    print(f"\n{table}\n", flush=True)
    if not only_try:
        (FOLDER / f"spark-{mark}.json").write_text(json.dumps(found, indent=1) + "\n")
        report.fill_readme(mark, table)
    return all(verdicts.values())


def _server(client: redis.Redis) -> str:
    info = client.info("server")
    name = info.get("server_name", "redis")
    return f"{name} {info.get(f'{name}_version') or info['redis_version']}"


if __name__ == "__main__":
    sys.exit(main())
