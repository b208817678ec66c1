"""The triggers under their public names, which Airflow stores."""

from __future__ import annotations

from chasqui_provider.triggers.event import ChasquiEventTrigger
from chasqui_provider.triggers.message import ChasquiMessageTrigger
from chasqui_provider.triggers.result import ChasquiJobResultTrigger

__all__ = ["ChasquiEventTrigger", "ChasquiJobResultTrigger", "ChasquiMessageTrigger"]
