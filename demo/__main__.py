"""Runs each part of the demo as its own program, and prints at the end what to look at."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from chasqui_engine import SyncQueue

PART_TIMEOUT_S = 300
QUEUES = ("demo", "squares")


@dataclass(frozen=True, slots=True)
class Part:
    """One program of the demo."""

    title: str
    command: Sequence[str]
    missing: Callable[[], str | None]
    """Why it cannot run on this machine; None if it can."""


def say(text: str = "") -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parts(url: str, report: Path) -> list[Part]:
    """The parts, in order. The third reports on the events of the first two."""
    python = [sys.executable, "-W", "ignore", "-m"]
    queues = [word for name in QUEUES for word in ("--queue", name)]
    return [
        Part(
            "the queue: bulk, delays, retries, cron, dead letters, results",
            [*python, "demo.engine", url],
            lambda: _extra("rich", "cli"),
        ),
        Part(
            "Airflow: a DAG puts 200 jobs on a queue and waits for the results without a slot",
            [*python, "demo.airflow", url],
            lambda: _extra("airflow", "airflow"),
        ),
        Part(
            "Spark: a report on everything that happened so far",
            [*python, "demo.spark", "--url", url, *queues, "--out", str(report)],
            _no_spark,
        ),
    ]


def _extra(module: str, extra: str) -> str | None:
    return None if find_spec(module) else f"{module} is not installed: pip install 'chasqui[{extra}]'"


def _no_spark() -> str | None:
    if reason := _extra("pyspark", "spark"):
        return reason
    from demo.spark import what_is_missing

    return what_is_missing()


def run(part: Part) -> str:
    """Runs a part; "done in …", "left out: …" or "failed: …"."""
    if reason := part.missing():
        return f"left out: {reason}"
    started = time.monotonic()
    try:
        code = subprocess.run(part.command, timeout=PART_TIMEOUT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        return f"failed: not done after {PART_TIMEOUT_S} s"
    took = f"{time.monotonic() - started:.0f} s"
    return f"done in {took}" if code == 0 else f"failed: exit code {code} after {took}"


def last_screen(url: str, report: Path, outcomes: dict[str, str], took_s: float) -> str:
    """The summary: what was shown, and where to look."""
    page = report / "report.html"
    lines = ["", "─" * 100, f"The demo took {took_s:.0f} s.", ""]
    lines += [f"  {title}: {what}" for title, what in outcomes.items()]
    lines += ["", "Look at"]
    if page.exists():
        lines.append(f"  the report       {page}")
    lines += [
        f"  the queues       .venv/bin/chasqui inspect {QUEUES[0]} --url {url}",
        f"  the dashboard    .venv/bin/chasqui dashboard --url {url}",
        "  the code         demo/engine.py, dags_examples/bulk_fan_out.py, demo/spark.py",
        "  the how-tos      docs/airflow/index.md, docs/spark.md, docs/cli.md",
        "",
        f"Everything is in {report.parent}; remove it when you have seen enough.",
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all parts; 0 if none failed."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--dashboard", action="store_true", help="open the dashboard at the end, until Ctrl-C")
    args = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="chasqui-demo-"))
    url, report = f"embedded://{folder}/queues", folder / "report"
    started = time.monotonic()
    outcomes: dict[str, str] = {}
    # Held open, so that one server serves all parts.
    with SyncQueue(QUEUES[0], redis_url=url) as queue:
        queue.counts()
        shown = parts(url, report)
        for number, part in enumerate(shown, 1):
            say(f"\n── {number}/{len(shown)} {part.title}\n")
            outcomes[part.title] = run(part)
            say(f"\n   {outcomes[part.title]}")
        say(last_screen(url, report, outcomes, time.monotonic() - started))
        if args.dashboard:
            say()
            subprocess.run(
                [sys.executable, "-m", "chasqui_engine.cli", "dashboard", "--open", "--url", url], check=False
            )
    return 1 if any(what.startswith("failed") for what in outcomes.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
