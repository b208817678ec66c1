"""Timetables: repeatable specs as DAG schedules."""
