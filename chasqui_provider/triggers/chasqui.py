"""The triggers by the names that people import, and under which Airflow stores them."""

from __future__ import annotations

from chasqui_provider.triggers.event import ChasquiEventTrigger
from chasqui_provider.triggers.message import ChasquiMessageTrigger
from chasqui_provider.triggers.result import ChasquiJobResultTrigger

__all__ = ["ChasquiEventTrigger", "ChasquiJobResultTrigger", "ChasquiMessageTrigger"]
