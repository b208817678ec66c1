"""The Chasqui provider for `MessageQueueTrigger(scheme="chasqui", queue_name=…)`."""

from __future__ import annotations

from airflow.exceptions import AirflowOptionalProviderFeatureException

try:
    from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
except ImportError as err:
    raise AirflowOptionalProviderFeatureException(
        "a MessageQueueTrigger needs apache-airflow-providers-common-messaging: pip install 'chasqui[airflow]'"
    ) from err
from airflow.triggers.base import BaseEventTrigger

from chasqui_provider.triggers.chasqui import ChasquiMessageTrigger


class ChasquiMessageQueueProvider(BaseMessageQueueProvider):
    """Makes a `ChasquiMessageTrigger` from the trigger's arguments."""

    scheme = "chasqui"

    def trigger_class(self) -> type[BaseEventTrigger]:
        """The trigger that takes jobs."""
        return ChasquiMessageTrigger
