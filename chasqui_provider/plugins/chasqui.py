"""The plugin: makes the timetable known to the scheduler."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from chasqui_provider.timetables.repeatable import RepeatableTimetable


class ChasquiPlugin(AirflowPlugin):
    """Loaded through the `airflow.plugins` entry point: a provider's own `plugins` key is not."""

    name = "chasqui"
    timetables = [RepeatableTimetable]  # noqa: RUF012 - the base class declares it so
