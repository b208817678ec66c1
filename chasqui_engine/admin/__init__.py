"""Reading and administering queues: snapshots, jobs, dead letters, delayed jobs."""

from __future__ import annotations

from chasqui_engine.admin.admin import QueueAdmin
from chasqui_engine.admin.dead_letters import DeadFilter, describe, died_at_ms
from chasqui_engine.admin.delayed import DelayedJob
from chasqui_engine.admin.diagnosis import QueueReport, ServerReport
from chasqui_engine.admin.health import QueueHealth
from chasqui_engine.admin.history import PastOutcome
from chasqui_engine.admin.lists import CompletedJob, ListedJob
from chasqui_engine.admin.monitor import BadQueue, QueueMonitor
from chasqui_engine.admin.operations.aborting import AbortState
from chasqui_engine.admin.removal import CleanState
from chasqui_engine.admin.snapshot import QueueCounts, QueueSnapshot, Throughput
from chasqui_engine.admin.workers import ConsumerInfo

__all__ = [
    "AbortState",
    "BadQueue",
    "CleanState",
    "CompletedJob",
    "ConsumerInfo",
    "DeadFilter",
    "DelayedJob",
    "ListedJob",
    "PastOutcome",
    "QueueAdmin",
    "QueueCounts",
    "QueueHealth",
    "QueueMonitor",
    "QueueReport",
    "QueueSnapshot",
    "ServerReport",
    "Throughput",
    "describe",
    "died_at_ms",
]
