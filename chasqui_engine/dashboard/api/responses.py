"""How routes answer: JSON, server-sent events, and what went wrong."""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import HTMLResponse, Response, StreamingResponse

from chasqui_engine.dashboard.api.error_map import describe_error
from chasqui_engine.dashboard.headers import SECURITY
from chasqui_engine.dashboard.live.feeds import Feed
from chasqui_engine.errors import ChasquiError

_STREAM_S = 300.0
"""After so long a stream ends and the browser opens it anew: who may no longer look, is told so then."""
_BEAT_S = 15.0


def answer(data: Any, status: int = 200) -> Response:
    """JSON. Escaped to ASCII, so that text that is no valid Unicode passes as well."""
    return Response(json.dumps(data, allow_nan=False), status, media_type="application/json")


def stream(watch: Feed, show: Callable[[Any], Any]) -> Response:
    """What a watch sees, as server-sent events."""
    return StreamingResponse(_events(watch, show), media_type="text/event-stream")


async def _events(watch: Feed, show: Callable[[Any], Any]) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    async for seen in watch.follow(_STREAM_S, _BEAT_S):
        if seen is None:
            yield ": still here\n\n"
        elif isinstance(seen, Exception):
            yield f"event: problem\ndata: {json.dumps(describe_error(seen)[1])}\n\n"
        else:
            yield f"event: view\ndata: {json.dumps(show(seen), allow_nan=False)}\n\n"


def answer_problems(app: FastAPI) -> None:
    """Every error as JSON below `/api/`, and as a small page elsewhere."""

    async def tell(request: Request, err: Exception) -> Response:
        status, told = describe_error(err)
        headers = dict(getattr(err, "headers", None) or {})
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # An error that nobody expected is answered outside of what sets these.
            headers.update(SECURITY)
        response = answer({"error": told}, status) if _is_api(request) else _page(status, told["message"])
        response.headers.update(headers)
        return response

    for kind in (AnyHTTPException, HTTPException, RequestValidationError, ChasquiError, Exception):
        app.add_exception_handler(kind, tell)


def _is_api(request: Request) -> bool:
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")).startswith("/api/")


def _page(status: int, message: str) -> Response:
    title = html.escape(f"{status} {HTTPStatus(status).phrase}")
    body = f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>"
    return HTMLResponse(f"{body}<p>{html.escape(message)}</p></html>", status)
