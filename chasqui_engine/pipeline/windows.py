"""Days and windows in UTC, independently of the time zone of the session or machine.

All of it is arithmetic on seconds since 1970: functions of Spark's that format or truncate times follow the session's
zone, and `collect` that of the machine.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

DAY_S = 86_400
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, where Python's calendar ends."""


def day_of(moment: Column | str) -> Column:
    """The day in UTC, as text."""
    days = F.floor(F.unix_seconds(moment) / DAY_S).cast("int")
    return F.date_from_unix_date(days).cast("string")


def window_of(moment: Column | str, window_s: int) -> Column:
    """The start of the window that contains a time."""
    return F.timestamp_seconds(F.floor(F.unix_seconds(moment) / window_s) * window_s)


def iso(epoch_s: int) -> str:
    """Seconds since 1970 as ISO 8601."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
