"""Makes answers of what queues told: bronze, silver, gold, report; or some of them; or redrives dead letters."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from chasqui_engine.cli import terminal
from chasqui_engine.cli.argv_secrets import hide_secrets
from chasqui_engine.errors import ChasquiError, ConfigError, RedisError
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.redrive import redrive
from chasqui_engine.pipeline.run import STEPS, Pipeline
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.session import session

FAILED, USAGE, BREACHED, NO_SERVER = 1, 2, 3, 4
"""Exit codes."""
_OURS = re.compile(r"chasqui_engine\.[\w.]+: (.+)")


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        return _run(args)
    except ChasquiError as err:
        if args.debug:
            raise
        code = USAGE if isinstance(err, ConfigError) else NO_SERVER if isinstance(err, RedisError) else FAILED
        return _fail(str(err), code)
    except PySparkException as err:
        # What one of our own parts said inside Spark is worth more than the forty lines that Spark puts around it.
        told = _OURS.findall(str(err))
        if args.debug or not told:
            raise
        return _fail(told[-1], FAILED)
    except KeyboardInterrupt:
        return 130


def _run(args: argparse.Namespace) -> int:
    started = time.monotonic()

    def say(text: str) -> None:
        terminal.say(f"[{time.monotonic() - started:7.1f} s] {text}", sys.stderr)

    if not args.debug:  # Spark logs a wrong condition, in pages, besides raising it
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")
    config = _config(args)
    _check(config, reads="bronze" in args.steps or args.continuous or args.redrive is not None)
    spark = session(args.master)
    try:
        if args.redrive is not None:
            return _redrive(spark, config, args, say)
        pipeline = Pipeline(spark, config, say)
        pipeline.store.check_writable()
        if args.continuous:
            pipeline.bronze(continuous=True)
            return 0
        summary = pipeline.run(tuple(args.steps))
        pipeline.tidy()
        if summary is None:
            return 0
        say(f"report  {pipeline.store.path('report', 'index.html')}")
        if args.json:
            _answer(summary)
        return BREACHED if args.fail_on_breach and summary["new_breaches"] else 0
    finally:
        spark.stop()


def _redrive(spark: Any, config: PipelineConfig, args: argparse.Namespace, say: Callable[[str], None]) -> int:
    for queue in config.queues:
        done = redrive(spark, queue, where=args.redrive, options=config.source_options)
        say(f"redrive {queue}: {done.redriven} of {done.selected} dead letters are jobs again")
        if args.json:
            _answer({"queue": queue, "selected": done.selected, "redriven": done.redriven})
    return 0


def _check(config: PipelineConfig, *, reads: bool) -> None:
    """What can be wrong is told before Spark is started, which takes a while."""
    config.slos()
    if not reads:  # the steps after bronze know files only
        return
    url = connection_url(config.source_options)
    for queue in config.queues:
        with QueueLocation(url=url, queue=queue).connect() as connection:
            connection.call("PING")


def _answer(data: dict[str, Any]) -> None:
    terminal.say(terminal.one_json_line(data))


def _fail(message: str, code: int) -> int:
    terminal.say(f"error: {message}", sys.stderr)
    return code


def _config(args: argparse.Namespace) -> PipelineConfig:
    return PipelineConfig(
        queues=tuple(args.queue),
        out=args.out,
        url=args.url,
        conn_id=args.conn_id,
        window_s=args.window,
        slo_file=args.slo,
        fail_on_data_loss=not args.skip_lost,
        keep_days=args.keep_days,
        gold_format=args.gold_format,
    )


def _parser() -> argparse.ArgumentParser:
    # No short forms of options: one of --url would not be known for a secret.
    parser = argparse.ArgumentParser(prog="chasqui pipeline run", description=__doc__, allow_abbrev=False)
    parser.add_argument("-q", "--queue", action="append", required=True, help="a queue; may be given several times")
    parser.add_argument("--out", default="chasqui-pipeline", help="folder for data and report (default: %(default)s)")
    parser.add_argument("--url", "--redis-url", help="where the queues are (default: CHASQUI_REDIS_URL)")
    parser.add_argument("--conn-id", help="an Airflow connection in place of --url")
    parser.add_argument("--master", help="Spark's master (default: local[*])")
    parser.add_argument("--window", type=int, default=300, help="seconds of a window (default: %(default)s)")
    parser.add_argument("--slo", help="YAML file with what was promised")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), help="only these steps")
    parser.add_argument("--continuous", action="store_true", help="keep bronze running until stopped")
    parser.add_argument(
        "--skip-lost",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="go on when events were trimmed before they were read",
    )
    parser.add_argument("--keep-days", type=int, help="days of bronze to keep (default: all)")
    parser.add_argument("--gold-format", choices=("parquet", "delta"), default="parquet")
    parser.add_argument(
        "--fail-on-breach",
        action="store_true",
        help="exit with 3 when a promise was broken that no report told of before",
    )
    parser.add_argument("--redrive", metavar="SQL", help="make jobs of the dead letters that match a SQL condition")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


if __name__ == "__main__":
    hide_secrets()
    sys.exit(main())
