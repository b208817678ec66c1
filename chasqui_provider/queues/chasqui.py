"""Chasqui for `MessageQueueTrigger(scheme="chasqui", queue_name=…)`."""

from __future__ import annotations

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
from airflow.triggers.base import BaseEventTrigger

from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger


class ChasquiMessageQueueProvider(BaseMessageQueueProvider):
    """Makes a `ChasquiMessageTrigger` of the trigger's arguments."""

    scheme = "chasqui"

    def trigger_class(self) -> type[BaseEventTrigger]:
        """The trigger that takes jobs."""
        return ChasquiMessageTrigger
