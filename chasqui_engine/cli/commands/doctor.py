"""`chasqui doctor`: is everything fit for jobs, and if not, what to do?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine._redis.client import server_info
from chasqui_engine._redis.commands import repeatables, stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.cli.commands.inspect import QueuesArgument, QueuesOption
from chasqui_engine.cli.doctor_checks import FAIL, NOTE, OK, WARN, Finding, of_bad_queue, of_ids, of_queue, of_server
from chasqui_engine.cli.monitor import Monitor, open_monitor
from chasqui_engine.cli.params import GroupOption
from chasqui_engine.cli.session import FAILED, Session, command
from chasqui_engine.cli.terminal import styled
from chasqui_engine.clock import now_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS = {OK: "green", NOTE: "cyan", WARN: "yellow", FAIL: "bold red"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "doctor", rich_help_panel="Look")(doctor)


async def doctor(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    group: GroupOption = "default",
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 for warnings too.")] = False,
) -> int:
    """Look at server and queues, and say what to do about what is wrong. Exit code 1: something is."""
    names = list(dict.fromkeys([*(queues or []), *(queue or [])]))
    async with open_monitor(session, names, group) as looker:
        findings = await _examine(looker)
        address = looker.address
    bad = (FAIL, WARN) if strict else (FAIL,)
    failed = any(one.level in bad for one in findings)
    data = {"server": address, "healthy": not failed, "findings": [asdict(one) for one in findings]}
    session.answer(data, lambda: _table(findings, address))
    return FAILED if failed else 0


async def _examine(looker: Monitor) -> list[Finding]:
    asked_at = now_ms()
    facts = await server_info.read_server_info(looker.link, QueueKeys("default"))
    local_ms = (asked_at + now_ms()) // 2
    findings = list(of_server(facts, looker.link.capabilities, local_ms))
    seen = await looker.look()
    for one in seen.queues:
        keys = QueueKeys(one.name)
        overdue_ms = await repeatables.read_lag_ms(looker.link, keys, facts.clock_ms)
        findings += of_queue(one, await stats.list_groups(looker.link, keys), overdue_ms)
        findings += of_ids(one.name, await stats.read_last_ids(looker.link, keys), facts.clock_ms)
    return [*findings, *map(of_bad_queue, seen.bad)]


def _table(findings: list[Finding], address: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    table = Table(header_style="bold", title=address, title_justify="left")
    for column in ("", "what", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for one in findings:
        table.add_row(styled(one.level, _COLOURS[one.level]), one.what, one.found, one.advice)
    wrong = sum(one.level == FAIL for one in findings)
    warned = sum(one.level == WARN for one in findings)
    verdict = "all is well" if not wrong + warned else f"{wrong} to mend, {warned} to look at"
    return Group(table, verdict)
