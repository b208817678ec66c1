"""The contestants: a module each, with a class `Contestant`. A peer's is imported in its own environment only."""

from __future__ import annotations

import importlib

from benchmarks.peers.peer import Peer

US = "chasqui"
RIVAL = "chasquimq"

PINS: dict[str, tuple[str, ...]] = {
    "chasquimq": ("chasquimq==1.3.0",),
    "bullmq": ("bullmq==3.4.4", "redis==8.1.0"),
    "saq": ("saq[redis,hiredis]==0.26.4", "typing-extensions"),
    "arq": ("arq==0.28.0",),
    "streaq": ("streaq==7.2.0", "coredis==6.9.0"),
    "taskiq-redis": ("taskiq-redis==1.2.4", "taskiq==0.13.0", "redis==8.1.0"),
    "dramatiq": ("dramatiq[redis]==2.2.1", "redis==8.1.0"),
    "rq": ("rq==2.12.0", "redis==8.1.0"),
    "celery": ("celery[redis]==5.7.0", "kombu==5.7.0"),
}
"""Every peer, and what is installed for it. The one place where their versions are written."""


def load(name: str) -> type[Peer]:
    """The class of one contestant."""
    module = importlib.import_module(f"benchmarks.peers.{name.replace('-', '_')}")
    contestant: type[Peer] = module.Contestant
    return contestant
