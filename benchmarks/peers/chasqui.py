"""Chasqui itself."""

from __future__ import annotations

import chasqui_engine
from benchmarks.peers.chasqui_api import ChasquiApi


class Contestant(ChasquiApi):
    """Our package."""

    library = chasqui_engine
