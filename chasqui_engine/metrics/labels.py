"""Shared by the exporters: bounded label values, and the bounds of the histograms."""

from __future__ import annotations

import re
import threading

from chasqui_engine.metrics.events import JobOutcomeKind
from chasqui_engine.values.errors import ConfigError

OTHER = "other"
"""The label of all job names beyond the limit."""

MAX_LABEL_CHARS = 128

FAILURE_KINDS = {JobOutcomeKind.ERR: "error", JobOutcomeKind.PANIC: "panic"}
"""The `kind` label of a failed run, as ChasquiMQ writes it."""

DURATION_BUCKETS_S = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Handler durations: from well under a millisecond to five minutes."""

BACKOFF_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Waits before a retry: from a tenth of a second to an hour."""

BATCH_BUCKETS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
"""Entries in one read."""

# Control characters and line separators break dashboards and line-based parsers. A lone surrogate has no UTF-8 form:
# one in a label would make every scrape of the whole registry fail.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_label(value: str) -> str:
    """The value with `_` for each character that does not belong in a label, cut to 128 characters."""
    return _UNFIT.sub("_", value[:MAX_LABEL_CHARS])


class NameLabels:
    """Job names as label values, at most `max_names` of them: each new name is a new series on the metrics server,
    and anyone who may add a job can choose names. The empty name is not counted; 0 lumps all others together.
    """

    __slots__ = ("_labels", "_lock", "_max_names")

    def __init__(self, max_names: int) -> None:
        if max_names < 0:
            raise ConfigError(f"max_names must not be negative, not {max_names}")
        self._max_names = max_names
        self._lock = threading.Lock()
        self._labels: dict[str, str] = {"": ""}

    def label(self, name: str) -> str:
        """The label for a job's name; `other` once the limit is reached."""
        name = name[:MAX_LABEL_CHARS]  # cut first, so that what is remembered is bounded too
        known = self._labels.get(name)
        return known if known is not None else self._admit(name)

    def _admit(self, name: str) -> str:
        with self._lock:
            if len(self._labels) > self._max_names:  # the empty name is one of them
                return self._labels.get(name, OTHER)
            return self._labels.setdefault(name, clean_label(name))
