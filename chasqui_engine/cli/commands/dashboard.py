"""`chasqui dashboard`: queues, jobs and dead letters on a page."""

from __future__ import annotations

import asyncio
import atexit
import errno
import html
import ipaddress
import logging
import secrets
import shutil
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from chasqui_engine.admin import QueueMonitor
from chasqui_engine.cli.input.params import GroupOption, parse_duration_ms
from chasqui_engine.cli.output.terminal import say
from chasqui_engine.cli.session import USAGE, Session, command, fail, print_json
from chasqui_engine.values.config import DEFAULT_URL

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "dashboard", rich_help_panel="Inspect")(dashboard)


def dashboard(
    session: Session,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen at. Other machines need --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8787,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="CHASQUI_DASHBOARD_TOKEN",
            metavar="TOKEN",
            help="The token of the link.",
        ),
    ] = None,
    payloads: Annotated[
        str, typer.Option("--payloads", metavar="show|mask|hide", help="What the page shows of payloads.")
    ] = "show",
    name: Annotated[str, typer.Option("--name", help="The name of the server on the page.")] = "redis",
    alarm_after: Annotated[
        str, typer.Option("--alarm-after", metavar="TIME", help="Mark a queue red when its oldest job waits longer.")
    ] = "5m",
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    group: GroupOption = "default",
) -> None:
    """Serve a page with plots, jobs by state, and dead letters to replay, delete or export. Ctrl-C ends it.

    The command prints a link with a token, without which the page cannot be opened.
    """
    token = _choose_token(host, token)
    url = session.url or DEFAULT_URL
    app = _app(url, token, payloads, name, group, parse_duration_ms(alarm_after) / 1000)
    asyncio.run(_check(url))
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    link = f"{address}?token={quote(token, safe='')}"

    def announce() -> None:
        if session.as_json:
            print_json({"event": "started", "url": address, "link": link})
        else:
            say(f"dashboard of {name}: {link}\nCtrl-C ends it")
        if open_browser:
            # Some browsers run until they are closed.
            threading.Thread(target=webbrowser.open, args=(_write_redirect(link),), daemon=True).start()

    # The audit log is always shown.
    logging.getLogger("chasqui.audit").setLevel(logging.INFO)
    _serve(app, listener, announce)


def _write_redirect(link: str) -> str:
    """A file only this user can read that redirects to the link: `ps` would show the link itself."""
    folder = Path(tempfile.mkdtemp(prefix="chasqui-dashboard-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    page = folder / "open.html"
    page.touch(mode=0o600)
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(link)}">')
    return page.as_uri()


def _choose_token(host: str, given: str | None) -> str:
    if given is not None:
        return given
    if not _is_loopback(host):
        fail(
            f"--host {host} can be reached from other machines",
            "pass your own --token (and put TLS in front of it), or leave --host out",
            exit_code=USAGE,
        )
    return secrets.token_urlsafe(32)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _check(url: str) -> None:
    """Connects once, so that an unreachable server is an error of the command and not of every page."""
    monitor = await QueueMonitor.connect(url)
    await monitor.close()


def _app(url: str, token: str, payloads: str, name: str, group: str, alarm_after_s: float) -> FastAPI:
    try:
        import uvicorn  # noqa: F401

        from chasqui_engine.dashboard import DashboardSettings, FixedConnections, TokenGuard, create_app
    except ModuleNotFoundError as err:
        if (err.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette", "pydantic"):
            raise
        fail("the dashboard needs fastapi and uvicorn", "pip install 'chasqui[dashboard]'")
    settings = DashboardSettings(payloads=payloads, group=group, alarm_after_s=alarm_after_s)  # type: ignore[arg-type]
    return create_app(FixedConnections({name: url}), TokenGuard(token), settings)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # A browser that opens the link before the first page is ready waits instead of being refused.
        listener.listen(128)
    except OSError as err:
        listener.close()
        # An unknown name, or an address of another machine; else the port is taken or privileged.
        about_host = isinstance(err, socket.gaierror) or err.errno == errno.EADDRNOTAVAIL
        fail(
            f"cannot listen at {host}:{port}: {err.strerror}",
            "give --host an address of this machine" if about_host else "choose another --port, or 0 for a free one",
            exit_code=USAGE,
        )
    return listener


def _serve(app: FastAPI, listener: socket.socket, announce: Callable[[], None]) -> None:
    import uvicorn

    from chasqui_engine.dashboard.silent_connections import PatientProtocol

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # Only when it handles a Ctrl-C: one in the middle of an import may have any effect.
            announce()

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # Streams of open pages would delay the exit.
            app.state.dashboard.feeds.stop()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        ws="none",
    )
    Server(config).run([listener])
