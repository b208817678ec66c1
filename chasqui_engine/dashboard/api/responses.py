"""Responses: JSON, server-sent events, and errors."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import HTMLResponse, Response, StreamingResponse

from chasqui_engine import ChasquiError
from chasqui_engine.dashboard.api.error_map import describe_error
from chasqui_engine.dashboard.headers import SECURITY
from chasqui_engine.dashboard.live.feeds import Feed
from chasqui_engine.dashboard.settings import Payloads

_STREAM_S = 300.0
"""A stream ends after this and the browser reopens it, which checks the user's rights again."""
_BEAT_S = 15.0


def answer(data: Any, status: int = 200) -> Response:
    """A JSON response, escaped to ASCII, since text may be invalid Unicode."""
    return Response(json.dumps(data, allow_nan=False), status, media_type="application/json")


async def answer_rows(
    payloads: Payloads, show: Callable[[Any, Payloads], Any], found: Sequence[Any], more: Any, **facts: Any
) -> Response:
    """A page of rows, made in a thread: other requests, and all of Airflow, share the event loop."""
    shown = await asyncio.to_thread(lambda: [show(one, payloads) for one in found])
    return answer({"rows": shown, "next": more, **facts})


def stream(feed: Feed, show: Callable[[Any], Any]) -> Response:
    """A feed as server-sent events."""
    return StreamingResponse(_events(feed, show), media_type="text/event-stream")


async def _events(feed: Feed, show: Callable[[Any], Any]) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    async for view in feed.follow(_STREAM_S, _BEAT_S):
        if view is None:
            yield ": still here\n\n"
        elif isinstance(view, Exception):
            yield f"event: problem\ndata: {json.dumps(describe_error(view)[1])}\n\n"
        else:
            yield f"event: view\ndata: {json.dumps(show(view), allow_nan=False)}\n\n"


def handle_errors(app: FastAPI) -> None:
    """Every error as JSON below `/api/`, and as a small page elsewhere."""

    async def respond(request: Request, err: Exception) -> Response:
        status, error = describe_error(err)
        headers = dict(getattr(err, "headers", None) or {})
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # An unexpected error is handled outside the middleware that sets these.
            headers.update(SECURITY)
        response = answer({"error": error}, status) if _is_api(request) else _page(status, error["message"])
        response.headers.update(headers)
        return response

    for kind in (AnyHTTPException, HTTPException, RequestValidationError, ChasquiError, Exception):
        app.add_exception_handler(kind, respond)


def _is_api(request: Request) -> bool:
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")).startswith("/api/")


def _page(status: int, message: str) -> Response:
    title = html.escape(f"{status} {HTTPStatus(status).phrase}")
    body = f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>"
    return HTMLResponse(f"{body}<p>{html.escape(message)}</p></html>", status)
