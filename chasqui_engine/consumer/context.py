"""The context that the stages of one consumer share."""

from __future__ import annotations

from dataclasses import dataclass, field

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine.consumer.buffer import PrefetchBuffer
from chasqui_engine.consumer.clock_steps import ClockSteps
from chasqui_engine.consumer.in_flight import InFlight
from chasqui_engine.consumer.listening.job_events import JobEvents
from chasqui_engine.metrics.safe_sink import SafeSink
from chasqui_engine.values.config import ConsumerConfig

_SMOOTHING = 0.05


class Pace:
    """The recent mean duration of handlers."""

    __slots__ = ("mean_s",)

    def __init__(self) -> None:
        self.mean_s = 0.1
        """Starts with a guess that keeps the prefetch buffer small."""

    def note(self, seconds: float) -> None:
        """Records the duration of one run."""
        self.mean_s += (seconds - self.mean_s) * _SMOOTHING


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    """One consumer: its place in the group, what it holds, and where it writes."""

    link: Link
    """For every command but the blocking reads."""
    member: GroupMember
    config: ConsumerConfig
    in_flight: InFlight
    buffer: PrefetchBuffer
    sink: SafeSink
    clock: ClockSteps
    job_events: JobEvents
    pace: Pace = field(default_factory=Pace)

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.member.keys.queue
