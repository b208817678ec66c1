"""Names that Airflow 3.2 moved: they are taken from where this Airflow has them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING or find_spec("airflow.sdk.configuration"):
    from airflow.sdk.bases.decorator import determine_kwargs
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        TaskDeferralTimeout,
    )
else:
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        TaskDeferralTimeout,
    )
    from airflow.utils.operator_helpers import determine_kwargs

__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "TaskDeferralTimeout",
    "conf",
    "determine_kwargs",
]
