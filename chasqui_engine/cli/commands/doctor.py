"""`chasqui doctor`: checks server and queues, and advises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine.admin import QueueMonitor
from chasqui_engine.cli.doctor_checks import (
    FAIL,
    NOTE,
    OK,
    WARN,
    Finding,
    check_bad_queue,
    check_last_ids,
    check_queue,
    check_server,
)
from chasqui_engine.cli.input.params import GroupOption, QueuesArgument, QueuesOption, parse_queues
from chasqui_engine.cli.monitor import open_monitor, take_snapshots
from chasqui_engine.cli.output.record_table import record_table
from chasqui_engine.cli.output.terminal import style_text
from chasqui_engine.cli.session import FAILED, Session, command
from chasqui_engine.runtime.clock import now_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS = {OK: "green", NOTE: "cyan", WARN: "yellow", FAIL: "bold red"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "doctor", rich_help_panel="Inspect")(doctor)


async def doctor(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    group: GroupOption = "default",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
) -> int:
    """Check the server and its queues, and say how to fix what is wrong.

    Exit code 1: an error was found.
    """
    names = parse_queues(queues, queue)
    async with open_monitor(session, names, group) as monitor:
        findings = await _examine(monitor, names)
        address = monitor.address
    bad = (FAIL, WARN) if strict else (FAIL,)
    failed = any(one.level in bad for one in findings)
    data = {"server": address, "healthy": not failed, "findings": [asdict(one) for one in findings]}
    session.answer(data, lambda: _render(findings, address, session.console.width))
    return FAILED if failed else 0


async def _examine(monitor: QueueMonitor, names: Sequence[str]) -> list[Finding]:
    asked_at = now_ms()
    server = await monitor.examine_server()
    local_ms = (asked_at + now_ms()) // 2
    findings = list(check_server(server, local_ms))
    found = await take_snapshots(monitor, names)
    for one in found.queues:
        report = await monitor.examine_queue(one.name)
        findings += check_queue(one, report)
        findings += check_last_ids(one.name, report.last_ids, server.clock_ms)
    return [*findings, *map(check_bad_queue, found.bad)]


def _render(findings: list[Finding], address: str, width: int) -> RenderableType:
    from rich.console import Group

    rows = [(style_text(one.level, _COLOURS[one.level]), one.what, one.found, one.advice) for one in findings]
    table = record_table(("level", "what", "found", "what to do"), rows, width)
    errors = sum(one.level == FAIL for one in findings)
    warnings = sum(one.level == WARN for one in findings)
    verdict = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}" if errors + warnings else "no problems found"
    return Group(address, table, verdict)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
