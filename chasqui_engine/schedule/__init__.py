"""Repeatable jobs: cron patterns, specs, plans of fires, and where specs are stored."""

from __future__ import annotations

from chasqui_engine.schedule.cron import CronSchedule
from chasqui_engine.schedule.plan import FirePlan, first_fire_ms, plan_fires

__all__ = ["CronSchedule", "FirePlan", "first_fire_ms", "plan_fires"]
