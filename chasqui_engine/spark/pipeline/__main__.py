"""`python -m chasqui_engine.spark.pipeline`: bronze, silver, gold, report; or some of them; or redrive."""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from chasqui_engine.errors import ChasquiError
from chasqui_engine.spark.pipeline.config import PipelineConfig
from chasqui_engine.spark.pipeline.redrive import redrive
from chasqui_engine.spark.pipeline.run import STEPS, Pipeline


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    args = _parser().parse_args(argv)
    started = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - started:7.1f} s] {text}\n")
        sys.stderr.flush()

    spark = session(args.master)
    try:
        config = _config(args)
        if args.redrive is not None:
            for queue in config.queues:
                done = redrive(spark, queue, where=args.redrive, options=config.source_options)
                say(f"redrive {queue}: {done.redriven} of {done.selected} dead letters are jobs again")
            return 0
        pipeline = Pipeline(spark, config, say)
        if args.continuous:
            pipeline.bronze(continuous=True)
            return 0
        summary = pipeline.run(tuple(args.steps))
        pipeline.tidy(datetime.now(UTC).date().isoformat())
        if summary is not None:
            say(f"report  {pipeline.store.path('report', 'index.html')}")
            return 3 if args.fail_on_breach and summary["breaches"] else 0
    except ChasquiError as err:
        sys.stderr.write(f"{err}\n")
        return 2
    finally:
        spark.stop()
    return 0


def session(master: str | None) -> SparkSession:
    """A session on this machine, unless told otherwise or started by spark-submit."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("chasqui-pipeline").config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    elif "SPARK_ENV_LOADED" not in os.environ:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master("local[*]").config("spark.log.level", "ERROR")
        builder = builder.config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 2)))
    return builder.getOrCreate()


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
    parser = argparse.ArgumentParser(prog="chasqui pipeline run", description=__doc__)
    parser.add_argument("--queue", action="append", required=True, help="a queue; may be given several times")
    parser.add_argument("--out", default="chasqui-pipeline", help="folder for data and report (default: %(default)s)")
    parser.add_argument("--url", help="where the queues are (default: CHASQUI_REDIS_URL)")
    parser.add_argument("--conn-id", help="an Airflow connection in place of --url")
    parser.add_argument("--master", help="Spark's master (default: local[*])")
    parser.add_argument("--window", type=int, default=300, help="seconds of a window (default: %(default)s)")
    parser.add_argument("--slo", help="YAML file with what was promised")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), help="only these steps")
    parser.add_argument("--continuous", action="store_true", help="keep bronze running until stopped")
    parser.add_argument("--skip-lost", action="store_true", help="go on when events were trimmed before they were read")
    parser.add_argument("--keep-days", type=int, help="days of bronze to keep (default: all)")
    parser.add_argument("--gold-format", choices=("parquet", "delta"), default="parquet")
    parser.add_argument("--fail-on-breach", action="store_true", help="exit with 3 when a promise was not kept")
    parser.add_argument("--redrive", metavar="SQL", help="make jobs of the dead letters that match a SQL condition")
    return parser


if __name__ == "__main__":
    sys.exit(main())
