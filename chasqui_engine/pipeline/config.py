"""The settings of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec

from chasqui_engine.pipeline.slo import Slo, parse
from chasqui_engine.spark.options import looked_up_by
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.validation import check_queue_name

ENTITIES = ("events", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """One pipeline: queues in, a folder out."""

    queues: tuple[str, ...]
    out: str
    url: str | None = field(default=None, repr=False)
    """Not in the repr, because it may hold a password."""
    conn_id: str | None = None
    credentials: str = "driver"
    """"executor": tasks carry no URL; each executor knows it by its own environment."""
    window_s: int = 300
    """The length of gold's windows."""
    slo_file: str | None = None
    entities: tuple[str, ...] = ENTITIES
    """What bronze copies. The metrics need `events` only."""
    max_rows_per_batch: int = 1_000_000
    """Events in one micro-batch of bronze: bounds the memory."""
    fail_on_data_loss: bool = True
    keep_days: int | None = None
    """Days of bronze that are kept, the present one among them; None keeps all. Silver and gold are kept."""
    compact_after: int = 20
    """Batches of one day from which on bronze merges them."""
    gold_format: str = "parquet"

    def __post_init__(self) -> None:
        if not self.queues:
            raise ConfigError("the pipeline needs at least one queue")
        for queue in self.queues:
            check_queue_name(queue, "queue")
        if self.url is not None and self.conn_id is not None:
            raise ConfigError("pass url or conn_id, not both")
        looked_up_by(self.source_options)
        for name in ("keep_days", "compact_after", "max_rows_per_batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        if self.window_s < 1 or 86_400 % self.window_s:
            raise ConfigError(f"window must divide a day, got {self.window_s} s")
        if not self.entities or not set(self.entities) <= set(ENTITIES):
            raise ConfigError(f"entities must be some of {', '.join(ENTITIES)}, got {', '.join(self.entities)!r}")
        if self.gold_format not in ("parquet", "delta"):
            raise ConfigError(f"gold format must be parquet or delta, got {self.gold_format!r}")
        if self.gold_format == "delta" and find_spec("deltalake") is None:
            raise ConfigError("gold format delta needs deltalake: pip install deltalake")

    @property
    def source_options(self) -> dict[str, str]:
        """The options that connect to the queues."""
        where = {} if self.url is None else {"url": self.url}
        if self.conn_id is not None:
            where = {"connId": self.conn_id}
        return where if self.credentials == "driver" else {**where, "credentials": self.credentials}

    def slos(self) -> list[Slo]:
        """The objectives in the SLO file."""
        if self.slo_file is None:
            return []
        try:
            with open(self.slo_file, encoding="utf-8") as file:
                return parse(file.read())
        except OSError as err:
            raise ConfigError(f"the SLO file {self.slo_file!r} cannot be read: {err.strerror}") from err
        except UnicodeDecodeError as err:
            raise ConfigError(f"the SLO file {self.slo_file!r} must be UTF-8: {err.reason} at {err.start}") from err
