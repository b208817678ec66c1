"""Builds a report from the events of queues (bronze, silver, gold, report), runs some of these steps, or redrives."""

from __future__ import annotations

import argparse
import re
import sys
import time

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from chasqui_engine.cli.input.argv_secrets import hide_secrets
from chasqui_engine.cli.output import terminal
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.redrive_command import run_redrive
from chasqui_engine.pipeline.run import STEPS, Pipeline
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.session import start_session
from chasqui_engine.values.errors import ChasquiError, ConfigError, RedisError

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
        # The one line of our own error says more than the forty that Spark puts around it.
        ours = _OURS.findall(str(err))
        if args.debug or not ours:
            raise
        return _fail(ours[-1], FAILED)
    except KeyboardInterrupt:
        return 130


def _run(args: argparse.Namespace) -> int:
    started = time.monotonic()

    def progress(text: str) -> None:
        terminal.say(f"[{time.monotonic() - started:7.1f} s] {text}", sys.stderr)

    if not args.debug:  # Spark logs a wrong condition, in pages, besides raising it
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")
    config = _config(args)
    _check_inputs(config, reads="bronze" in args.steps or args.continuous or args.redrive is not None)
    spark = start_session(args.master)
    try:
        if args.redrive is not None:
            return run_redrive(spark, config, args, progress)
        pipeline = Pipeline(spark, config, progress)
        pipeline.store.check_writable()
        if args.continuous:
            pipeline.bronze(continuous=True)
            return 0
        summary = pipeline.run(tuple(args.steps))
        pipeline.tidy()
        if summary is None:
            return 0
        page = pipeline.page_link()
        progress(f"report  {page}")
        if args.json:
            terminal.say(terminal.one_json_line({**summary, "page": page}))
        return BREACHED if args.fail_on_breach and summary["new_breaches"] else 0
    finally:
        spark.stop()


def _check_inputs(config: PipelineConfig, *, reads: bool) -> None:
    """Raises before Spark is started, which takes a while, what would fail after."""
    config.slos()
    if not reads:  # the steps after bronze know files only
        return
    url = connection_url(config.source_options)
    for queue in config.queues:
        with QueueLocation(url=url, queue=queue).connect() as connection:
            connection.call("PING")


def _fail(message: str, code: int) -> int:
    terminal.say(f"error: {message}", sys.stderr)
    return code


def _config(args: argparse.Namespace) -> PipelineConfig:
    return PipelineConfig(
        queues=tuple(args.queue),
        out=args.out,
        url=args.url,
        conn_id=args.conn_id,
        credentials=args.credentials,
        window_s=args.window,
        slo_file=args.slo,
        fail_on_data_loss=not args.skip_lost,
        keep_days=args.keep_days,
        gold_format=args.gold_format,
    )


def _parser() -> argparse.ArgumentParser:
    # No abbreviated options: `hide_secrets` would not recognise one of --url.
    parser = argparse.ArgumentParser(prog="chasqui pipeline run", description=__doc__, allow_abbrev=False)
    parser.add_argument("-q", "--queue", action="append", required=True, help="a queue; can be repeated")
    parser.add_argument("--out", default="chasqui-pipeline", help="folder for data and report (default: %(default)s)")
    parser.add_argument("--url", "--redis-url", help="URL of the server (default: CHASQUI_REDIS_URL)")
    parser.add_argument("--conn-id", help="an Airflow connection instead of --url")
    parser.add_argument(
        "--credentials",
        choices=("driver", "executor"),
        default="driver",
        help="executor: tasks carry no URL; every executor knows --conn-id or CHASQUI_REDIS_URL by itself",
    )
    parser.add_argument("--master", help="Spark's master (default: local[*])")
    parser.add_argument("--window", type=int, default=300, help="seconds of a window (default: %(default)s)")
    parser.add_argument("--slo", help="YAML file with objectives")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), help="run these steps only")
    parser.add_argument("--continuous", action="store_true", help="keep bronze running until stopped")
    parser.add_argument(
        "--skip-lost",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="continue when events were trimmed before they were read",
    )
    parser.add_argument("--keep-days", type=int, help="days of bronze to keep (default: all)")
    parser.add_argument("--gold-format", choices=("parquet", "delta"), default="parquet")
    parser.add_argument(
        "--fail-on-breach",
        action="store_true",
        help="exit with 3 when there is an SLO breach that no report had before",
    )
    parser.add_argument("--redrive", metavar="SQL", help="make jobs of the dead letters that match a SQL condition")
    parser.add_argument("--dry-run", action="store_true", help="--redrive: show what would be added, and add nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="--redrive: add without asking")
    parser.add_argument("--by", help="--redrive: who did it, kept with the dead letter (default: Spark's user)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


if __name__ == "__main__":
    hide_secrets()
    sys.exit(main())
