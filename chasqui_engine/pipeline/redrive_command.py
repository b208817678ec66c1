"""`chasqui pipeline run --redrive`: shows which jobs it would add, asks, and adds them."""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

from chasqui_engine.cli.input.prompt import ask_yes_or_no
from chasqui_engine.cli.output import terminal
from chasqui_engine.pipeline.bronze import Progress
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.redrive import RedrivePlan, plan_redrive
from chasqui_engine.values.errors import ConfigError

_PREVIEW = 10
"""Jobs that are shown before any is added."""
_MOST_CHARS = 100


def run_redrive(spark: SparkSession, config: PipelineConfig, args: argparse.Namespace, progress: Progress) -> int:
    """Shows what would be added, and adds it if that is confirmed; returns the exit code."""
    for queue in config.queues:
        with plan_redrive(spark, queue, where=args.redrive, options=config.source_options) as plan:
            _print_plan(queue, plan, progress)
            if args.dry_run or not plan.fresh or not _confirm(plan, args):
                redriven = 0
            else:
                redriven = plan.run(by=args.by).redriven
                progress(f"redrive {queue}: {redriven:,} jobs were added")
        if args.json:
            counts = {"queue": queue, "selected": plan.selected, "fresh": plan.fresh, "redriven": redriven}
            terminal.say(terminal.one_json_line(counts))
    return 0


def _print_plan(queue: str, plan: RedrivePlan, progress: Progress) -> None:
    before = f", {plan.selected - plan.fresh:,} were redriven before" if plan.selected > plan.fresh else ""
    progress(f"redrive {queue}: {plan.selected:,} dead letters match{before}")
    for row in plan.preview(_PREVIEW):
        terminal.say(f"  {row.entry_id}  {row.name or '(no name)'}  {row.id}  {_shorten(row.payload_json)}", sys.stderr)
    if plan.fresh > _PREVIEW:
        terminal.say(f"  and {plan.fresh - _PREVIEW:,} more", sys.stderr)


def _shorten(text: str | None) -> str:
    text = text or "(no JSON)"
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"


def _confirm(plan: RedrivePlan, args: argparse.Namespace) -> bool:
    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("confirmation required, but stdin is not a terminal: pass --yes, or --dry-run to add nothing")
    return ask_yes_or_no(f"Add {plan.fresh:,} jobs?") is True
