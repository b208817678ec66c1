"""The pages: one HTML shell, whose scripts call the API. No data of a queue is ever written into HTML."""

from __future__ import annotations

import functools
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from chasqui_engine.dashboard.dependencies import Viewer

router = APIRouter()

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@functools.cache
def _static() -> dict[str, bytes]:
    """Every file of the folder, and of the folders in it, by its path."""
    found: dict[str, bytes] = {}

    def collect(folder: Traversable, prefix: str) -> None:
        for one in folder.iterdir():
            if one.is_dir():
                collect(one, f"{prefix}{one.name}/")
            else:
                found[prefix + one.name] = one.read_bytes()

    collect(files("chasqui_engine.dashboard") / "static", "")
    return found


@router.get("/")
async def show_queues(user: Viewer) -> Response:
    """All queues."""
    return _shell("./")


@router.get("/queues")
@router.get("/queues/")
async def redirect_to_queues(user: Viewer, request: Request) -> Response:
    """A shortened address leads to the list."""
    return RedirectResponse("./" if not request.url.path.endswith("/") else "../")


@router.get("/queues/{rest:path}")
async def show_queue_or_job(rest: str, user: Viewer, request: Request) -> Response:
    """One queue, or one of its jobs. The script reads their names from the address, where they are quoted."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    parts = raw.partition(b"?")[0].split(b"/")
    if len(parts) > 5 and parts[-5] == b"queues" and parts[-2] == b"jobs":
        return _shell("../../../../")
    if len(parts) > 3 and parts[-3] == b"queues":
        return _shell("../../")
    raise HTTPException(404, "There is no such page: an address is queues/CONNECTION/QUEUE, each quoted.")


@router.get("/static/{name:path}")
async def serve_static(name: str, user: Viewer) -> Response:
    """Styles and scripts, which need the right to view as well."""
    kind = _TYPES.get("." + name.rpartition(".")[2])
    if kind is None or name not in _static():
        raise HTTPException(404, "There is no such file.")
    return Response(_static()[name], media_type=kind)


def _shell(base: str) -> Response:
    """The page, with the relative path from its address to the root of the dashboard."""
    return HTMLResponse(_static()["page.html"].decode().replace("{base}", base))
