"""The names of a queue's keys. All carry the hash tag `{chasqui:<queue>}`, so one queue is one Cluster slot."""

from __future__ import annotations

from chasqui_engine.values.validation import check_queue_name


class QueueKeys:
    """The keys of one queue."""

    __slots__ = (
        "aborts",
        "delayed",
        "dlq",
        "events",
        "limiter",
        "limits",
        "paused",
        "prefix",
        "prio",
        "prio_jobs",
        "prio_state",
        "promoter_lock",
        "queue",
        "repeat",
        "scheduler_lock",
        "stream",
        "uses",
        "workers",
    )

    def __init__(self, queue: str) -> None:
        self.queue = check_queue_name(queue)
        self.prefix = f"{{chasqui:{queue}}}"
        self.stream = f"{self.prefix}:stream"
        self.delayed = f"{self.prefix}:delayed"
        self.dlq = f"{self.prefix}:dlq"
        self.events = f"{self.prefix}:events"
        self.repeat = f"{self.prefix}:repeat"
        self.paused = f"{self.prefix}:paused"
        self.aborts = f"{self.prefix}:aborts"
        self.uses = f"{self.prefix}:uses"
        self.limits = f"{self.prefix}:limits"
        self.limiter = f"{self.prefix}:limiter"
        self.prio = f"{self.prefix}:prio"
        self.prio_jobs = f"{self.prefix}:prio:jobs"
        self.prio_state = f"{self.prefix}:prio:state"
        self.workers = f"{self.prefix}:workers"
        self.promoter_lock = f"{self.prefix}:promoter:lock"
        self.scheduler_lock = f"{self.prefix}:scheduler:lock"

    def spec(self, key: str) -> str:
        """Hash of one repeatable spec."""
        return f"{self.prefix}:repeat:spec:{key}"

    def result(self, job_id: str) -> str:
        """What the handler returned."""
        return f"{self.prefix}:result:{job_id}"

    def failure(self, job_id: str) -> str:
        """Why the job died; kept as long as its result would be."""
        return f"{self.prefix}:failure:{job_id}"

    def log(self, job_id: str) -> str:
        """What its handler logged."""
        return f"{self.prefix}:log:{job_id}"

    def headers(self, job_id: str) -> str:
        """Its headers, for when its entry has none."""
        return f"{self.prefix}:meta:{job_id}"

    def tally(self, grain: str, part: int) -> str:
        """Counts by the minute, of an hour, or by the hour, of a day; hours and days are counted since 1970."""
        return f"{self.prefix}:tally:{grain}:{part}"

    def taken(self, job_id: str) -> str:
        """Exists while the id is taken."""
        return f"{self.prefix}:dlid:{job_id}"

    def delayed_index(self, job_id: str) -> str:
        """The exact member of a delayed job that was added with an id."""
        return f"{self.prefix}:didx:{job_id}"
