"""Puts the dashboard together."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from chasqui_engine.dashboard import pages
from chasqui_engine.dashboard.api import actions, queries
from chasqui_engine.dashboard.api.responses import answer_problems
from chasqui_engine.dashboard.auth import Connections, Guard
from chasqui_engine.dashboard.dependencies import Dashboard
from chasqui_engine.dashboard.headers import SecurityHeaders
from chasqui_engine.dashboard.settings import DashboardSettings

_DEFAULTS = DashboardSettings()


def create_app(connections: Connections, guard: Guard, settings: DashboardSettings = _DEFAULTS) -> FastAPI:
    """The dashboard as an ASGI application, to be run alone or mounted at any path."""
    dashboard = Dashboard(connections, guard, settings)

    # Run alone, it closes what it opened. Mounted, it is not told of the end, and what is idle closes by itself.
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await dashboard.close()

    # FastAPI's own pages would be unguarded, and load scripts from elsewhere.
    # Its redirects to addresses with a slash more or less would repeat whatever host a request names.
    app = FastAPI(
        title="Chasqui", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.state.dashboard = dashboard
    app.add_middleware(SecurityHeaders)
    answer_problems(app)
    for part in (queries, actions, pages):
        app.include_router(part.router)
    return app
