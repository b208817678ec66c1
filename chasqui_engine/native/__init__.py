"""Every name of the `chasquimq` package, with its arguments: a program moves over by its import.

`Producer`, `Consumer` and `Scheduler` are ChasquiMQ's here: payloads and results are bytes that stay as they are,
options and specs are dicts. All others are those of `chasqui_engine`.
"""

from __future__ import annotations

from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine.consumer import Handler
from chasqui_engine.events import QueueEvent, QueueEvents
from chasqui_engine.native.producer import Producer
from chasqui_engine.native.services import Consumer, Scheduler
from chasqui_engine.queue.queue import Queue
from chasqui_engine.runtime.identity import version
from chasqui_engine.schedule.spec import MissedFiresPolicy, RepeatableMeta, RepeatPattern
from chasqui_engine.values.backoff import BackoffSpec
from chasqui_engine.values.errors import NotSupportedError, UnrecoverableError
from chasqui_engine.values.job import Job
from chasqui_engine.worker import Worker

CredentialProvider = FetchCredentials

__all__ = [
    "BackoffSpec",
    "Consumer",
    "CredentialProvider",
    "Handler",
    "Job",
    "MissedFiresPolicy",
    "NotSupportedError",
    "Producer",
    "Queue",
    "QueueEvent",
    "QueueEvents",
    "RepeatPattern",
    "RepeatableMeta",
    "Scheduler",
    "UnrecoverableError",
    "Worker",
    "version",
]
