"""`chasqui worker`."""

from __future__ import annotations

import os
import socket
from typing import Annotated, Any

import typer

from chasqui_engine.cli.input.params import GroupOption, QueueOption, parse_duration_ms, require_queue
from chasqui_engine.cli.logs import FORMATS, LEVELS, LogOptions
from chasqui_engine.cli.session import USAGE, Session, command, fail

_LAST_PORT = 65535
_RELOAD_DEADLINE_S = 3.0
"""A restart after a change of the code does not wait long for running jobs."""


TimeLimitOption = Annotated[
    str | None, typer.Option("--time-limit", metavar="TIME", help="Longest run of a handler: 30s, 5m.")
]
DeadlineOption = Annotated[
    str | None, typer.Option("--deadline", metavar="TIME", help="How long running jobs may take to finish at a stop.")
]
PlainInOption = Annotated[str, typer.Option("--plain-in", metavar="thread|process", help="Where plain functions run.")]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="What it is called, in place of host and process.")
]
LogLevelOption = Annotated[
    str, typer.Option("--log-level", metavar="|".join(LEVELS), help="Lowest level that is logged to stderr.")
]
LogFormatOption = Annotated[
    str, typer.Option("--log-format", metavar="|".join(FORMATS), help="Lines for people, or JSON for programs.")
]
LogJobIdsOption = Annotated[
    bool, typer.Option("--log-job-ids", help="Add the job's id to what its handler logs; JSON always has it.")
]
BurstOption = Annotated[
    bool, typer.Option("--burst", help="End when no job waits, runs here, or is due; exit code 1 if one died.")
]
MaxJobsOption = Annotated[
    int | None, typer.Option("--max-jobs", min=1, metavar="N", help="Stop after N runs; of a group, a new one starts.")
]
MaxRssOption = Annotated[
    int | None, typer.Option("--max-rss", min=1, metavar="MB", help="Stop when the process takes more memory.")
]
TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE[:HANDLER]",
        help='A function of a job, a registry, or a module whose functions carry @handler("name").',
    ),
]
MetricsHostOption = Annotated[str, typer.Option("--metrics-host", help="The address to serve metrics at.")]
StoreResultsOption = Annotated[bool, typer.Option("--store-results", help="Keep what handlers return.")]
ConcurrencyOption = Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Concurrent jobs per process.")]
MetricsPortOption = Annotated[
    int | None,
    typer.Option("--metrics-port", min=1, max=_LAST_PORT, help="Serve Prometheus metrics; process N at PORT + N."),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "worker", rich_help_panel="Work")(worker)


async def worker(
    session: Session,
    target: TargetArgument,
    queue: QueueOption = None,
    concurrency: ConcurrencyOption = 100,
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, help="Worker processes.")] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when a Python file here changes.")] = False,
    burst: BurstOption = False,
    max_jobs: MaxJobsOption = None,
    max_rss: MaxRssOption = None,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    store_results: StoreResultsOption = False,
    max_attempts: Annotated[int, typer.Option("--max-attempts", min=1, help="Runs of a job in total.")] = 25,
    time_limit: TimeLimitOption = None,
    deadline: DeadlineOption = None,
    plain_in: PlainInOption = "thread",
    group: GroupOption = "default",
    worker_name: NameOption = None,
    log_level: LogLevelOption = "warning",
    log_format: LogFormatOption = "text",
    log_job_ids: LogJobIdsOption = False,
    child: Annotated[int | None, typer.Option("--child", hidden=True)] = None,
    child_fd: Annotated[int | None, typer.Option("--child-fd", hidden=True)] = None,
) -> int:
    """Run the jobs of a queue.

    The first Ctrl-C lets running jobs finish; the second stops at once, and other workers reclaim the jobs.
    """
    from chasqui_engine.cli.worker.run import Plan, run_here

    logs = LogOptions(log_level, log_format, log_job_ids)
    _check_choices(plain_in, logs)
    _check_end(burst, reload)
    options: dict[str, Any] = {
        "concurrency": concurrency,
        "store_results": store_results,
        "max_attempts": max_attempts,
        "group": group,
        "name": worker_name,
        "run_plain_in": plain_in,
        "max_jobs": max_jobs,
        "max_rss_mb": max_rss,
        "time_limit_secs": None if time_limit is None else parse_duration_ms(time_limit) / 1000,
        "shutdown_deadline_secs": _deadline_s(deadline, reload),
    }
    _check_ports(metrics_port, processes)
    name = require_queue(None, queue, "default")
    if child is None and (processes > 1 or reload):
        from chasqui_engine.cli.worker.process_group import WorkerGroup

        given = _child_arguments(session, target, name, metrics_port, metrics_host, options) + _log_arguments(logs)
        given += ["--burst"] * burst
        return await WorkerGroup(session, name, given, processes, group=group, reload=reload, burst=burst).run()
    port = None if metrics_port is None else metrics_port + (child or 0)
    parent = None if child_fd is None else socket.socket(fileno=child_fd)
    return await run_here(session, Plan(target, name, options, metrics_host, port, logs, burst), parent)


def _check_choices(plain_in: str, logs: LogOptions) -> None:
    _check_choice("--plain-in", plain_in, ("thread", "process"))
    _check_choice("--log-level", logs.level, LEVELS)
    _check_choice("--log-format", logs.format, FORMATS)


def _check_choice(option: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        fail(f"{option} cannot be {given!r}", f"choose one of {', '.join(choices)}", exit_code=USAGE)


def _check_end(burst: bool, reload: bool) -> None:
    if burst and reload:
        fail("--burst ends, and --reload never does", "leave out one of them", exit_code=USAGE)


def _log_arguments(logs: LogOptions) -> list[str]:
    return ["--log-level", logs.level, "--log-format", logs.format, *(["--log-job-ids"] if logs.job_ids else [])]


def _check_ports(first: int | None, processes: int) -> None:
    if first is not None and first + processes - 1 > _LAST_PORT:
        problem = f"{processes} processes need the ports from {first} on, and the last port is {_LAST_PORT}"
        fail(problem, "choose a lower --metrics-port", exit_code=USAGE)


def _deadline_s(deadline: str | None, reload: bool) -> float | None:
    if deadline is not None:
        return parse_duration_ms(deadline) / 1000
    return _RELOAD_DEADLINE_S if reload else None


def _child_arguments(
    session: Session, target: str, queue: str, port: int | None, host: str, options: dict[str, Any]
) -> list[str]:
    """The command line of a child process."""
    words = [target, "-q", queue, "-c", str(options["concurrency"]), "--max-attempts", str(options["max_attempts"])]
    words += ["--group", options["group"], "--plain-in", options["run_plain_in"], "--metrics-host", host]
    if port is not None:
        words += ["--metrics-port", str(port)]
    if options["name"] is not None:
        words += ["--name", options["name"]]
    if options["store_results"]:
        words.append("--store-results")
    for flag, seconds in (("--time-limit", "time_limit_secs"), ("--deadline", "shutdown_deadline_secs")):
        if options[seconds] is not None:
            words += [flag, f"{options[seconds]}s"]
    for flag, limit in (("--max-jobs", "max_jobs"), ("--max-rss", "max_rss_mb")):
        if options[limit] is not None:
            words += [flag, str(options[limit])]
    if session.url is not None:
        # Not as an argument, because `ps` would show its password.
        os.environ["CHASQUI_REDIS_URL"] = session.url
    words += ["--debug"] if session.debug else []
    words += ["--json"] if session.as_json else []
    return words
