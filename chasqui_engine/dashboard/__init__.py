"""The dashboard: queues, jobs and dead letters on a page, alone or mounted in another application.

`create_app` makes an ASGI application that works under whatever path it is mounted. It asks a `Guard` who may see and
who may change, and `Connections` for the servers.
"""

from __future__ import annotations

from chasqui_engine.dashboard.app import create_app
from chasqui_engine.dashboard.auth import Connections, FixedConnections, Guard, TokenGuard
from chasqui_engine.dashboard.settings import DashboardSettings, Payloads

__all__ = [
    "Connections",
    "DashboardSettings",
    "FixedConnections",
    "Guard",
    "Payloads",
    "TokenGuard",
    "create_app",
]
