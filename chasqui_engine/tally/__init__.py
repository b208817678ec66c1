"""Counts that last: how jobs ended, by the minute for a day and by the hour for four weeks, in Redis."""

from __future__ import annotations

from chasqui_engine.tally.counting import Tally, quantile_ms
from chasqui_engine.tally.reading import Grain, HistoryPoint, read_history
from chasqui_engine.tally.writer import TallyWriter

__all__ = ["Grain", "HistoryPoint", "Tally", "TallyWriter", "quantile_ms", "read_history"]
