"""Assembles the dashboard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from chasqui_engine.dashboard import pages
from chasqui_engine.dashboard.api import (
    actions,
    dead_letter_lists,
    history,
    job_actions,
    job_search,
    lists,
    queries,
    repeatable_actions,
)
from chasqui_engine.dashboard.api.responses import handle_errors
from chasqui_engine.dashboard.auth import Connections, Guard
from chasqui_engine.dashboard.dependencies import Dashboard
from chasqui_engine.dashboard.headers import SecurityHeaders
from chasqui_engine.dashboard.settings import DashboardSettings

_DEFAULTS = DashboardSettings()


def create_app(connections: Connections, guard: Guard, settings: DashboardSettings = _DEFAULTS) -> FastAPI:
    """The dashboard as an ASGI application, to be run alone or mounted at any path."""
    dashboard = Dashboard(connections, guard, settings)

    # Only an application that runs alone gets a shutdown; mounted, idle connections close by themselves.
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await dashboard.close()

    # FastAPI's own pages would be unguarded, and load scripts from elsewhere.
    # Its redirects for a missing slash would repeat the host that a request names, whatever that is.
    app = FastAPI(
        title="Chasqui", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.state.dashboard = dashboard
    app.add_middleware(SecurityHeaders)
    handle_errors(app)
    for part in (
        queries,
        lists,
        history,
        dead_letter_lists,
        job_search,
        actions,
        job_actions,
        repeatable_actions,
        pages,
    ):
        app.include_router(part.router)
    return app
