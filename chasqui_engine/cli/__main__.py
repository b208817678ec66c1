"""`python -m chasqui_engine.cli`, for systems where the script is not on the path."""

from __future__ import annotations

from chasqui_engine.cli import main

main()
