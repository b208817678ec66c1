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

from chasqui_engine.admin.monitor import QueueMonitor
from chasqui_engine.cli.params import GroupOption
from chasqui_engine.cli.session import USAGE, Session, command, fail, print_json
from chasqui_engine.cli.terminal import say
from chasqui_engine.config import DEFAULT_URL

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "dashboard", rich_help_panel="Look")(dashboard)


def dashboard(
    session: Session,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen. Beyond this machine only with --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8787,
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="CHASQUI_DASHBOARD_TOKEN", metavar="TOKEN", help="A new one, if not given."),
    ] = None,
    payloads: Annotated[
        str, typer.Option("--payloads", metavar="show|mask|hide", help="What is seen of the jobs' data.")
    ] = "show",
    name: Annotated[str, typer.Option("--name", help="What the server is called on the page.")] = "redis",
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    group: GroupOption = "default",
) -> None:
    """Show queues in the browser: plots, jobs by state, dead letters to replay, delete or export. Ctrl-C ends it.

    Only who has the link that it prints gets in.
    """
    token = _token(host, token)
    url = session.url or DEFAULT_URL
    app = _app(url, token, payloads, name, group)
    asyncio.run(_check(url))
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    link = f"{address}?token={quote(token, safe='')}"

    def started() -> None:
        if session.as_json:
            print_json({"event": "started", "url": address, "link": link})
        else:
            say(f"dashboard of {name}: {link}\nCtrl-C ends it")
        if open_browser:
            # Some browsers end only when they are closed.
            threading.Thread(target=webbrowser.open, args=(_way_in(link),), daemon=True).start()

    # Who changes what is said here, whatever else is not.
    logging.getLogger("chasqui.audit").setLevel(logging.INFO)
    _serve(app, listener, started)


def _way_in(link: str) -> str:
    """The address of a file of this user alone that leads to the link: command lines are for all to see."""
    folder = Path(tempfile.mkdtemp(prefix="chasqui-dashboard-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    page = folder / "open.html"
    page.touch(mode=0o600)
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(link)}">')
    return page.as_uri()


def _token(host: str, given: str | None) -> str:
    if given is not None:
        return given
    if not _is_loopback(host):
        fail(
            f"--host {host} can be reached from other machines",
            "pass a --token of your own (and put TLS in front of it), or leave --host out",
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
    """Raises what every page would otherwise say."""
    looker = await QueueMonitor.connect(url)
    await looker.close()


def _app(url: str, token: str, payloads: str, name: str, group: str) -> FastAPI:
    try:
        import uvicorn  # noqa: F401

        from chasqui_engine.dashboard import DashboardSettings, FixedConnections, TokenGuard, create_app
    except ModuleNotFoundError as err:
        if (err.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette", "pydantic"):
            raise
        fail("the dashboard needs fastapi and uvicorn", "pip install 'chasqui[dashboard]'")
    settings = DashboardSettings(payloads=payloads, group=group)  # type: ignore[arg-type]
    return create_app(FixedConnections({name: url}), TokenGuard(token), settings)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # Whoever opens the link before the first page can be served waits, and is not refused.
        listener.listen(128)
    except OSError as err:
        listener.close()
        # No such name, or an address of another machine; else the port is taken, or not ours to take.
        about_host = isinstance(err, socket.gaierror) or err.errno == errno.EADDRNOTAVAIL
        fail(
            f"{host}:{port} cannot be listened on: {err.strerror}",
            "give --host an address of this machine" if about_host else "choose another --port, or 0 for a free one",
            exit_code=USAGE,
        )
    return listener


def _serve(app: FastAPI, listener: socket.socket, started: Callable[[], None]) -> None:
    import uvicorn

    from chasqui_engine.dashboard.silent_connections import PatientProtocol

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # Not before it hears a Ctrl-C: one that strikes in the middle of an import can end in anything.
            started()

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # Streams of open pages would hold up the end.
            app.state.dashboard.watches.stop()
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
